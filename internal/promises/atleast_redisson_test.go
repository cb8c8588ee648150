package promises_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// An at-least time keeps Redisson's clients out until it is over, and no longer. The lease in this test lasts an hour. A waiting Redisson thread has
// seen that TTL and sleeps for an hour. The release publishes a message that wakes the thread. The thread then sees the shorter TTL.
func TestAtLeast_KeepsRedissonOut(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		if p.Kind.Deaf {
			t.Skip("a spin lock has no at-least")
		}
		const least = 500 * time.Millisecond
		rt, peer := p.Runtime(t, holdfast.Options{Lease: time.Hour}), locktest.NewPeer(t, p)
		began := time.Now()
		held := locktest.Acquire(t, p.Lock(rt), holdfast.WithAtLeast(least))
		theirs := p.Kind.Peer(peer, p.Name, 1)
		got := make(chan struct{})
		go func() {
			defer close(got)
			assert.NoError(t, theirs.Lock(t.Context(), time.Minute))
		}()
		locktest.AwaitBlocked(t, peer, 1)
		require.NoError(t, held.Release(t.Context()))
		locktest.Closed(t, "Redisson's waiter has the lock", got)
		assert.GreaterOrEqual(t, time.Since(began), least)
		require.NoError(t, theirs.Unlock(t.Context()))
	})
}
