package scripts_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

func TestLockChannel_IsRedissons(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "redisson_lock__channel:{orders}", scripts.LockChannel("orders"))
	assert.Equal(t, "redisson_lock__channel:a{b}c", scripts.LockChannel("a{b}c"))
}

func TestCountKeys_AreRedissonsOrHaveOurPrefix(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "redisson_sc:{pool}", scripts.SemaphoreChannel("pool"))
	assert.Equal(t, "redisson_sc:a{b}c", scripts.SemaphoreChannel("a{b}c"))
	assert.Equal(t, "redisson_countdownlatch__channel__{start}", scripts.LatchChannel("start"))
	assert.Equal(t, "redisson_countdownlatch__channel__{a{b}c}", scripts.LatchChannel("a{b}c"), "always in braces")
	assert.Equal(t, "holdfast_attempt:{pool}:u:7", scripts.AttemptKey("pool", "u:7"))
	assert.Equal(t, "holdfast_want:{pool}", scripts.WantKey("pool"))
}

var allKinds = []*scripts.Kind{
	scripts.Lock, scripts.FairLock, scripts.FencedLock, scripts.SpinLock, scripts.ReadLock, scripts.WriteLock,
	scripts.Semaphore, scripts.PermitSemaphore, scripts.CountDownLatch,
}

// keysOf returns all keys and channels that the scripts of a kind use for a name.
func keysOf(kind *scripts.Kind, name string) (keys []string) {
	if kind == scripts.CountDownLatch && strings.Contains(name, "{") {
		return nil // Redisson's channel of such a latch is in another slot
	}
	site := &scripts.Site{Runtime: "5e0f", Publish: "PUBLISH", Lease: time.Second, FairWait: time.Second, Tokens: 1}
	for _, call := range kind.Check(site, name, func() string { return "5e0f:7" }) {
		for _, key := range call.Keys() {
			if !slices.Contains(keys, key.(string)) {
				keys = append(keys, key.(string))
			}
		}
	}
	return keys
}

// tag returns the part of a key that Redis Cluster hashes.
func tag(key string) string {
	_, rest, found := strings.Cut(key, "{")
	if inner, _, closed := strings.Cut(rest, "}"); found && closed && inner != "" {
		return inner
	}
	return key
}

// All keys and channels of a name are in the same slot of a cluster, except those of a latch whose name contains braces.
func TestNames_KeepToOneSlotOfACluster(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, "--cluster-enabled", "yes").Client(t)
	letters := []rune("ab{}:ü ")
	for range 300 {
		var name string
		for range 1 + rand.IntN(6) {
			name += string(letters[rand.IntN(len(letters))])
		}
		if protocol.CheckName(name) != nil {
			continue
		}
		pipe := node.Pipeline()
		slot, slots := pipe.ClusterKeySlot(t.Context(), name), map[string]*redis.IntCmd{}
		for _, kind := range allKinds {
			for _, key := range keysOf(kind, name) {
				slots[key] = pipe.ClusterKeySlot(t.Context(), key)
			}
		}
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(slots), 12)
		for key, other := range slots {
			assert.Equal(t, slot.Val(), other.Val(), "%q and %q", name, key)
		}
	}
}
