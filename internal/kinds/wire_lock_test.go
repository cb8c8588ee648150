package kinds_test

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var ownerField = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:\d+$`)

// The keys of a held lock in Redis are exactly those that Redisson would have written.
func TestWire_HeldLockLooksLikeRedissons(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t) // a private server, whose keys are all the test's own
	client := server.Client(t)
	rt, err := holdfast.New(client, holdfast.Options{})
	require.NoError(t, err)
	const name = "orders"
	pubsub := client.PSubscribe(t.Context(), "*")
	t.Cleanup(func() { _ = pubsub.Close() })
	_, err = pubsub.Receive(t.Context())
	require.NoError(t, err)

	owner := rt.NewOwner()
	first, err := rt.Lock(name).Acquire(t.Context(), holdfast.WithOwner(owner))
	require.NoError(t, err)
	again, err := rt.Lock(name).Acquire(t.Context(), holdfast.WithOwner(owner))
	require.NoError(t, err)
	keys, err := client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	assert.Equal(t, []string{name}, keys)
	fields, err := client.HGetAll(t.Context(), name).Result()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{first.ID(): "1"}, fields, "re-entry is counted in the process")
	assert.Equal(t, first.ID(), again.ID())
	assert.Regexp(t, ownerField, first.ID())
	ttl, err := client.PTTL(t.Context(), name).Result()
	require.NoError(t, err)
	assert.InDelta(t, 30, ttl.Seconds(), 2)

	require.NoError(t, again.Release(t.Context()))
	require.NoError(t, first.Release(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	message, err := pubsub.ReceiveMessage(ctx)
	require.NoError(t, err)
	assert.Equal(t, "redisson_lock__channel:{orders}", message.Channel)
	assert.Equal(t, "0", message.Payload)
	size, err := client.DBSize(t.Context()).Result()
	require.NoError(t, err)
	assert.Zero(t, size)
	require.NoError(t, rt.Close(t.Context()))
}

// In a thousand rounds the lock alternates between our process and a peer that does only what Redisson does. Each side releases it only when the
// other wants it, so the release's message wakes the other side.
func TestWire_ContendsWithRedisson(t *testing.T) {
	t.Parallel()
	const rounds = 1000
	server := redistest.Start(t)
	client := server.Client(t)
	rt, err := holdfast.New(client, holdfast.Options{})
	require.NoError(t, err)
	peer := redissonpeer.New(server.Client(t), redissonpeer.Config{})
	t.Cleanup(peer.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	lock, theirs := rt.Lock("orders"), peer.RLock("orders", 57)
	number, inside := 0, false // guarded by the lock alone
	var waiting, finished [2]atomic.Bool
	enter := func(self int) {
		waiting[self].Store(false)
		assert.False(t, inside, "side %d is not alone", self)
		inside = true
		for ctx.Err() == nil && !waiting[1-self].Load() && !finished[1-self].Load() {
			runtime.Gosched()
		}
		<-time.After(2 * time.Millisecond) // work, long enough for the other to subscribe
		number++
		inside = false
	}
	done := make(chan error, 1)
	go func() {
		defer finished[0].Store(true)
		for range rounds {
			waiting[0].Store(true)
			if err := theirs.Lock(ctx, 30*time.Second); err != nil {
				done <- fmt.Errorf("peer's lock: %w", err)
				return
			}
			enter(0)
			if err := theirs.Unlock(ctx); err != nil {
				done <- fmt.Errorf("peer's unlock: %w", err)
				return
			}
		}
		done <- nil
	}()
	began := time.Now()
	for range rounds {
		waiting[1].Store(true)
		lease, err := lock.Acquire(ctx)
		require.NoError(t, err)
		enter(1)
		require.NoError(t, lease.Release(ctx))
	}
	finished[1].Store(true)
	require.NoError(t, <-done)
	assert.Equal(t, 2*rounds, number)
	woken := peer.Wakeups()
	t.Logf("%d rounds in %v; the peer was woken %d times by a message and %d times by the TTL", 2*rounds,
		time.Since(began).Round(time.Millisecond), woken.ByMessage, woken.ByTTL)
	assert.Greater(t, woken.ByMessage, int64(rounds/10)) // in the other rounds the lock became free while the peer subscribed
	assert.Zero(t, woken.ByTTL, "every wait of the peer ended by our message")
	assert.Zero(t, peer.Malformed())
	require.NoError(t, rt.Close(ctx))
	size, err := client.DBSize(ctx).Result()
	require.NoError(t, err)
	assert.Zero(t, size)
}
