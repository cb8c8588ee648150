package kinds_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// alternate lets several sides compete for a lock. Each acquires it `rounds` times, and only one may be inside at a time.
func alternate(t *testing.T, rounds int, sides ...func(ctx context.Context, inside func())) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	number, inside := 0, false // guarded by the lock alone
	var group sync.WaitGroup
	for _, side := range sides {
		group.Go(func() {
			for range rounds {
				side(ctx, func() {
					assert.False(t, inside)
					inside = true
					<-time.After(time.Millisecond)
					number++
					inside = false
				})
			}
		})
	}
	group.Wait()
	assert.Equal(t, len(sides)*rounds, number)
}

// Our multi locks and Redisson's exclude each other, even if they acquire the members in opposite orders. Opposite orders can cause a deadlock,
// which timeouts end.
func TestWire_MultiLockSharesWithRedisson(t *testing.T) {
	t.Parallel()
	for order, reversed := range map[string]bool{"same order": false, "other order": true} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rt := locktest.NewRuntime(t, server.Client(t), holdfast.Options{})
			peer := redissonpeer.New(server.Client(t), redissonpeer.Config{})
			t.Cleanup(peer.Close)
			ours, theirs := holdfast.Multi(rt.Lock("a"), rt.Lock("b")), peer.MultiLock(peer.RLock("a", 1), peer.RLock("b", 1))
			if reversed {
				theirs = peer.MultiLock(peer.RLock("b", 1), peer.RLock("a", 1))
			}
			alternate(t, locktest.Scaled(100, 10), func(ctx context.Context, inside func()) {
				if assert.NoError(t, theirs.Lock(ctx, 0)) {
					inside()
					assert.NoError(t, theirs.Unlock(ctx))
				}
			}, func(ctx context.Context, inside func()) {
				lease, err := ours.Acquire(ctx)
				if assert.NoError(t, err) {
					inside()
					assert.NoError(t, lease.Release(ctx))
				}
			})
			assert.Zero(t, peer.Malformed())
			assert.Zero(t, server.Client(t).DBSize(t.Context()).Val())
		})
	}
}

// The keys of a multi lock in Redis are those of its members, and no others.
func TestWire_MultiLockLooksLikeItsMembers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	rt := locktest.NewRuntime(t, client, holdfast.Options{})
	peer := redissonpeer.New(server.Client(t), redissonpeer.Config{})
	t.Cleanup(peer.Close)
	looks := func() map[string]map[string]string {
		all := map[string]map[string]string{}
		for _, key := range client.Keys(t.Context(), "*").Val() {
			all[key] = map[string]string{}
			for field, value := range client.HGetAll(t.Context(), key).Val() {
				assert.Regexp(t, ownerField, field)
				all[key]["owner"] = value
			}
			assert.InDelta(t, 30, client.PTTL(t.Context(), key).Val().Seconds(), 5)
		}
		return all
	}
	theirs := peer.MultiLock(peer.RLock("a", 1), peer.RLock("b", 1))
	require.NoError(t, theirs.Lock(t.Context(), 0))
	want := looks()
	require.NoError(t, theirs.Unlock(t.Context()))
	lease := acquireAll(t, holdfast.Multi(rt.Lock("b"), rt.Lock("a")))
	assert.Equal(t, want, looks())
	require.NoError(t, lease.Release(t.Context()))
	assert.Empty(t, looks())
}

func TestWire_RedLockSharesWithRedisson(t *testing.T) {
	t.Parallel()
	s := newServers(t, locktest.Kinds[0], 3)
	var theirs []*redissonpeer.RLock
	var peer *redissonpeer.Peer
	for _, server := range s.all {
		peer = redissonpeer.New(server.Client(t), redissonpeer.Config{})
		t.Cleanup(peer.Close)
		theirs = append(theirs, peer.RLock(s.name, 1))
	}
	red, theirRed := holdfast.Red(s.locks(t, holdfast.Options{})...), peer.RedLock(theirs...)
	alternate(t, locktest.Scaled(100, 10), func(ctx context.Context, inside func()) {
		if assert.NoError(t, theirRed.Lock(ctx, 10*time.Second)) {
			inside()
			assert.NoError(t, theirRed.Unlock(ctx))
		}
	}, func(ctx context.Context, inside func()) {
		lease, err := red.Acquire(ctx)
		if assert.NoError(t, err) {
			inside()
			assert.NoError(t, lease.Release(ctx))
		}
	})
	s.awaitHeld(t, 0)
}
