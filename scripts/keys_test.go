package scripts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

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

// tag is what Redis Cluster hashes of a key.
func tag(key string) string {
	_, rest, found := strings.Cut(key, "{")
	if inner, _, closed := strings.Cut(rest, "}"); found && closed && inner != "" {
		return inner
	}
	return key
}

// All keys and channels of a name that is allowed share one slot.
func FuzzNames_KeepToOneSlot(f *testing.F) {
	for _, name := range []string{"orders", "a{b}c", "a{}b", "a{b", "x}y{z", "}{", "{a}{b}", "", "a\x00b", "ünï", strings.Repeat("x", 513)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if protocol.CheckName(name) != nil {
			return
		}
		for _, other := range []string{
			scripts.LockChannel(name), scripts.SemaphoreChannel(name), scripts.AttemptKey(name, "u:7"), scripts.WantKey(name),
		} {
			if a, b := tag(name), tag(other); a != b {
				t.Fatalf("%q hashes %q, %q hashes %q", name, a, other, b)
			}
		}
	})
}
