package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// A lease whose key was deleted meanwhile touches nothing of who holds the lock now: not by its renewals, not by Release, not by
// Extend.
func TestFault_StaleLeaseTouchesNothing(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]holdfast.AcquireOption{
		"renewed": nil, "fixed": {holdfast.WithLease(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) { showStaleLease(t, p, options) })
		})
	}
}

func showStaleLease(t *testing.T, p *locktest.Place, options []holdfast.AcquireOption) {
	const stale = time.Second
	rt := p.Runtime(t, holdfast.Options{Lease: stale})
	owner := rt.NewOwner()
	old := locktest.Acquire(t, p.Lock(rt), append(options, holdfast.WithOwner(owner))...)
	require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
	next := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})), holdfast.WithLease(time.Minute))

	last := time.Minute
	locktest.Stays(t, "the next holder's time only falls", stale, func() bool {
		ttl := p.Redis.PTTL(t.Context(), p.Name).Val()
		falls := ttl <= last && ttl > time.Second
		last = ttl
		return falls
	})
	if len(options) == 0 {
		locktest.Closed(t, "Done", old.Done())
		assert.ErrorIs(t, old.Extend(t.Context(), time.Hour), holdfast.ErrLeaseLost)
	} else {
		assert.ErrorIs(t, old.Extend(t.Context(), time.Hour), holdfast.ErrLeaseLost, "it learns so by that")
	}
	assert.ErrorIs(t, old.Release(t.Context()), holdfast.ErrLeaseLost)
	assert.Equal(t, map[string]string{next.ID(): "1"}, p.Fields(t))
	assert.LessOrEqual(t, p.Redis.PTTL(t.Context(), p.Name).Val(), last)
	assert.True(t, next.Valid())
	locktest.Release(t, next)

	again := locktest.Acquire(t, p.Lock(rt), holdfast.WithOwner(owner)) // the very same owner
	assert.ErrorIs(t, old.Release(t.Context()), holdfast.ErrLeaseLost)
	assert.ErrorIs(t, old.Extend(t.Context(), time.Hour), holdfast.ErrLeaseLost)
	assert.True(t, again.Valid())
	assert.Equal(t, map[string]string{again.ID(): "1"}, p.Fields(t))
	locktest.Release(t, again)
}

// A stale lease of a fixed length that nobody extends is told of by its release: there are no renewals to tell.
func TestFault_StaleFixedLeaseIsToldByItsRelease(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		old := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})), holdfast.WithLease(time.Minute))
		require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
		next := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
		assert.ErrorIs(t, old.Release(t.Context()), holdfast.ErrLeaseLost)
		assert.Equal(t, map[string]string{next.ID(): "1"}, p.Fields(t))
		locktest.Release(t, next)
	})
}
