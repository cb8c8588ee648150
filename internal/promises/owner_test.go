package promises_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func TestPromise_OwnerReenters(t *testing.T) {
	t.Parallel()
	for way, show := range map[string]func(t *testing.T, p *locktest.Place, rt *holdfast.Runtime){
		"with the option":          showReentry,
		"with a context":           showReentryByContext,
		"nested Do":                showNestedDo,
		"several goroutines":       showSharedOwner,
		"waiting behind others":    showOwnersWaitTogether,
		"fixed lease":              showFixedReentry,
		"lost with all its leases": showReentryLost,
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) { show(t, p, p.Runtime(t, holdfast.Options{})) })
		})
	}
}

func showReentry(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) {
	other, owner := p.Runtime(t, holdfast.Options{}), rt.NewOwner()
	var leases []*holdfast.Lease
	for i := range 5 {
		lease := locktest.Acquire(t, p.Lock(rt), holdfast.WithOwner(owner))
		if i%2 == 1 {
			locktest.Release(t, lease)
			lease, _ = p.Lock(rt).TryAcquire(t.Context(), holdfast.WithOwner(owner))
			require.NotNil(t, lease, "a try re-enters, too")
		}
		leases = append(leases, lease)
	}
	for i, lease := range leases {
		assert.Equal(t, map[string]string{leases[0].ID(): "1"}, p.Fields(t), "holds are counted here, not in Redis")
		locktest.AssertTaken(t, p, rt, other)
		assert.True(t, lease.Valid())
		locktest.Release(t, lease)
		assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrNotHeld, "release %d counts once", i)
	}
	assert.False(t, p.Exists(t), "the lock is free after as many releases as acquires")
	locktest.Release(t, locktest.Acquire(t, p.Lock(other)))
	locktest.Release(t, locktest.Acquire(t, p.Lock(rt), holdfast.WithOwner(owner)))
}

func showReentryByContext(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) {
	outer, inner := rt.NewOwner(), rt.NewOwner()
	ctx := holdfast.ContextWithOwner(t.Context(), outer)
	first, err := p.Lock(rt).Acquire(ctx)
	require.NoError(t, err)
	second, err := p.Lock(rt).TryAcquire(ctx)
	require.NoError(t, err)
	other, err := p.Another(t).Lock(rt).Acquire(ctx) // the owner in ctx is for every lock
	require.NoError(t, err)

	_, err = p.Lock(rt).TryAcquire(ctx, holdfast.WithOwner(inner))
	assert.ErrorIs(t, err, holdfast.ErrNotAcquired, "WithOwner overrides")
	_, err = p.Lock(rt).TryAcquire(holdfast.ContextWithOwner(ctx, inner))
	assert.ErrorIs(t, err, holdfast.ErrNotAcquired, "the inner context overrides")
	third, err := p.Lock(rt).TryAcquire(t.Context(), holdfast.WithOwner(outer))
	require.NoError(t, err, "the same owner")

	state, err := p.Lock(rt).Inspect(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{outer.String(), outer.String(), outer.String()}, state.Local)
	for _, lease := range []*holdfast.Lease{first, second, third, other} {
		locktest.Release(t, lease)
	}
	assert.False(t, p.Exists(t))
}

func showNestedDo(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) {
	lock, other, depth := p.Lock(rt), p.Another(t).Lock(rt), 0
	var nest func(ctx context.Context) error
	nest = func(ctx context.Context) error {
		if depth++; depth == 5 {
			locktest.AssertTaken(t, p, rt)
			return other.Do(ctx, func(ctx context.Context) error { // the owner in ctx is for the first lock only
				_, err := other.TryAcquire(ctx)
				assert.NoError(t, err, "the context of other.Do carries other's owner")
				_, err = lock.TryAcquire(ctx)
				assert.NoError(t, err, "and still carries the first lock's owner")
				return nil
			})
		}
		return p.Lock(rt).Do(ctx, nest) // another handle on the same lock
	}
	assert.NoError(t, lock.Do(t.Context(), nest))
	assert.Equal(t, 5, depth)
}

func showSharedOwner(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) {
	other, owner := p.Runtime(t, holdfast.Options{}), rt.NewOwner()
	first := locktest.Acquire(t, p.Lock(rt), holdfast.WithOwner(owner))
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 50 {
				lease, err := p.Lock(rt).Acquire(t.Context(), holdfast.WithOwner(owner))
				if assert.NoError(t, err) {
					assert.True(t, lease.Valid())
					assert.NoError(t, lease.Release(t.Context()))
				}
			}
		})
	}
	all.Wait()
	locktest.AssertTaken(t, p, rt, other)
	locktest.Release(t, first)
	assert.False(t, p.Exists(t))
}

// showOwnersWaitTogether lets two acquires of one owner wait: they get the lock at the same time.
func showOwnersWaitTogether(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) {
	first, owner := locktest.Acquire(t, p.Lock(rt)), rt.NewOwner()
	one := p.Lock(rt).AcquireAsync(t.Context(), holdfast.WithOwner(owner))
	between := p.Lock(rt).AcquireAsync(t.Context())
	two := p.Lock(rt).AcquireAsync(t.Context(), holdfast.WithOwner(owner))
	p.WaitForWaiting(t, rt, 3)
	locktest.Release(t, first)
	a, err := one.Lease()
	require.NoError(t, err)
	b, err := two.Lease()
	require.NoError(t, err)
	assert.True(t, a.Valid() && b.Valid())
	locktest.Release(t, a)
	locktest.Open(t, "the waiter between the two acquires", between.Done())
	locktest.Release(t, b)
	c, err := between.Lease()
	require.NoError(t, err)
	locktest.Release(t, c)
}

// showFixedReentry re-enters with fixed leases. If the owner's lease is fixed, a re-entry may prolong it, but does not shorten it. If the watchdog
// renews the owner's lease, a re-entry does not change it.
func showFixedReentry(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) {
	owner := holdfast.WithOwner(rt.NewOwner())
	left := func() time.Duration { return p.Redis.PTTL(t.Context(), p.Name).Val() }
	watched := locktest.Acquire(t, p.Lock(rt), owner)
	again := locktest.Acquire(t, p.Lock(rt), owner, holdfast.WithLease(time.Hour))
	assert.Less(t, left(), time.Minute)
	assert.ErrorIs(t, again.Extend(t.Context(), time.Hour), holdfast.ErrInvalid)
	locktest.Release(t, watched)
	locktest.Release(t, again)

	fixed := locktest.Acquire(t, p.Lock(rt), owner, holdfast.WithLease(time.Minute))
	shorter := locktest.Acquire(t, p.Lock(rt), owner, holdfast.WithLease(time.Second))
	assert.Greater(t, left(), 30*time.Second, "max(remaining, d)")
	longer := locktest.Acquire(t, p.Lock(rt), owner, holdfast.WithLease(time.Hour))
	assert.Greater(t, left(), 30*time.Minute)
	assert.Greater(t, time.Until(fixed.ExpiresAt()), 30*time.Minute, "the owner's leases are one hold, with one deadline")
	for _, lease := range []*holdfast.Lease{fixed, shorter, longer} {
		assert.True(t, lease.Valid())
		locktest.Release(t, lease)
	}
	assert.False(t, p.Exists(t))
}

func showReentryLost(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) {
	owner := holdfast.WithOwner(rt.NewOwner())
	a, b := locktest.Acquire(t, p.Lock(rt), owner), locktest.Acquire(t, p.Lock(rt), owner)
	held, err := p.Lock(rt).ForceRelease(t.Context())
	require.NoError(t, err)
	assert.True(t, held)
	for _, lease := range []*holdfast.Lease{a, b} {
		locktest.Closed(t, "Done", lease.Done())
		assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
	}
	locktest.Release(t, locktest.Acquire(t, p.Lock(rt), owner))
}
