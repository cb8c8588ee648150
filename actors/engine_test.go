package actors

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/gateway"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// No two grants of a runtime have the same ID, even if the operating system returns the same random number every time.
func TestGrant_IDsAreUsedOnce(t *testing.T) {
	t.Parallel()
	e := &Engine{id: "f4a0c9de-8f0f-4d4e-b7b9-5d1c3b1d2e4f", salt: func() uint64 { return 7 }}
	e.numbers.Store(1<<40 - 500) // so that the counter overflows the bits that the salt leaves
	seen := map[string]bool{}
	for range 1000 {
		id := e.newGrantID()
		require.False(t, seen[id], id)
		require.True(t, strings.HasPrefix(id, e.id+":"), id)
		seen[id] = true
	}
}

// When several workers hang on silent connections, the first of them reaches its time limit before the gateway runs out of workers. With a lease
// shorter than 375 ms this is not guaranteed: the limit is then redisnode.Silence.
func TestEngine_ReplyWait(t *testing.T) {
	t.Parallel()
	for lease, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond:  redisnode.Silence,
		375 * time.Millisecond: redisnode.Silence,
		time.Second:            4 * time.Second / 3,
		3 * time.Second:        4 * time.Second,
		4 * time.Second:        redisnode.ReplyWait,
		time.Minute:            redisnode.ReplyWait,
	} {
		p := wait.Policy{Lease: lease, AckTimeout: time.Second}
		got := replyWait(&p)
		assert.InDelta(t, want, got, 10, lease)
		if lease >= 375*time.Millisecond {
			assert.LessOrEqual(t, got, gateway.StuckMax*rpc.Window(lease), lease)
		}
		p.AckReplicas = 1
		assert.Equal(t, min(got+p.AckTimeout, redisnode.ReplyWait), replyWait(&p), lease)
	}
}

// The part of a grant's number that comes from the operating system is random, and uses all its bits.
func TestGrant_SaltIsRandom(t *testing.T) {
	t.Parallel()
	var set, unset uint64
	for range 64 {
		s := salt()
		require.Less(t, s, uint64(1)<<saltBits)
		set, unset = set|s, unset|^s
	}
	all := uint64(1)<<saltBits - 1
	assert.Equal(t, all, set, "each bit is 1 now and then")
	assert.Equal(t, all, unset&all, "each bit is 0 now and then")
}

// Renewals never wait behind the calls of locks: no lane uses their gateway.
func TestEngine_RenewalsHaveAGatewayOfTheirOwn(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	e, err := Start(Config{
		Client: client, Policy: wait.Policy{Lease: time.Minute, HandoffMax: 1, MaxWaiters: 1}, RenewBatch: 1,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	for i := range e.lanes {
		assert.NotSame(t, e.renewals, e.lanes[i].gateway, "lane %d", i)
		assert.NotSame(t, e.renewals, e.lanes[i].acquires, "lane %d", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	assert.NoError(t, e.Close(ctx))
}
