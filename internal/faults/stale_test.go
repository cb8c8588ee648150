package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// If the key of a lease is deleted and somebody else acquires the lock, the old lease does not affect the new holder: not by its renewals, not by
// Release, not by Extend.
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
	stale := locktest.Unhurried(time.Second)
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
		assert.ErrorIs(t, old.Extend(t.Context(), time.Hour), holdfast.ErrLeaseLost, "Extend reports the loss")
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

// A fixed lease is not renewed, so no renewal reports its loss. If nobody in the process extends the lease or waits for the lock, only Release
// reports that the lease is lost.
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

// If Redis has forgotten a fixed lease, or somebody else has freed the lock by force, nobody in the holder's process waits for the end of the
// lease. Waiters and later callers are served, and the holder learns of the loss.
func TestFault_ForgottenFixedLeaseKeepsNobody(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(t *testing.T, p *locktest.Place, other *holdfast.Runtime){
		"deleted": func(t *testing.T, p *locktest.Place, _ *holdfast.Runtime) {
			require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
		},
		"freed by force": func(t *testing.T, p *locktest.Place, other *holdfast.Runtime) {
			freed, err := p.Lock(other).ForceRelease(t.Context())
			require.NoError(t, err)
			assert.True(t, freed)
		},
	} {
		for _, p := range locktest.OnOneServer(t) {
			t.Run(name+"/"+p.Kind.Name, func(t *testing.T) {
				t.Parallel()
				rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
				fixed := locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(time.Hour))
				waiting := p.Lock(rt).AcquireAsync(t.Context())
				p.WaitForWaiting(t, rt, 1)
				forget(t, p, other)
				locktest.Closed(t, "the next grant", waiting.Done())
				next, err := waiting.Lease()
				require.NoError(t, err)
				locktest.Closed(t, "the loss", fixed.Done())
				assert.ErrorIs(t, fixed.Release(t.Context()), holdfast.ErrLeaseLost)
				locktest.Release(t, next)

				fixed = locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(time.Hour))
				forget(t, p, other)
				locktest.Await(t, "a try", func() bool {
					lease, err := p.Lock(rt).TryAcquire(t.Context())
					return err == nil && assert.NoError(t, lease.Release(t.Context()))
				})
				locktest.Closed(t, "the loss", fixed.Done())
			})
		}
	}
}

// Redis has forgotten a fixed lease of one half of a read/write lock. In the process of that lease, nobody waits until the lease ends, not even a
// waiter for the other half: a writer does not wait for a forgotten reader, nor a reader for a forgotten writer.
func TestFault_ForgottenFixedReaderKeepsNoWriter(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	rt := p.Runtime(t, holdfast.Options{})
	lock := rt.RWLock(p.Name)
	for _, halves := range [][2]*holdfast.Lock{{lock.Read(), lock.Write()}, {lock.Write(), lock.Read()}} {
		fixed := locktest.Acquire(t, halves[0], holdfast.WithLease(time.Hour))
		waiting := halves[1].AcquireAsync(t.Context())
		locktest.Await(t, "the waiter", func() bool {
			state, err := halves[1].Inspect(t.Context())
			return err == nil && state.Waiting == 1
		})
		require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
		locktest.Closed(t, "the next grant", waiting.Done())
		next, err := waiting.Lease()
		require.NoError(t, err)
		locktest.Closed(t, "the loss", fixed.Done())
		locktest.Release(t, next)
	}
}

// An owner with a fixed lease acquires the lock again, for a longer time. Redis has forgotten the first lease, so the owner acquires the lock like
// any other caller.
func TestFault_ReentryOfAForgottenLease(t *testing.T) {
	t.Parallel()
	for _, p := range locktest.OnOneServer(t) {
		t.Run(p.Kind.Name, func(t *testing.T) {
			t.Parallel()
			rt := p.Runtime(t, holdfast.Options{})
			owner := holdfast.WithOwner(rt.NewOwner())
			lost := locktest.Acquire(t, p.Lock(rt), owner, holdfast.WithLease(time.Minute))
			require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
			pending := p.Lock(rt).AcquireAsync(t.Context(), owner, holdfast.WithLease(time.Hour))
			locktest.Closed(t, "the next grant", pending.Done())
			next, err := pending.Lease()
			require.NoError(t, err)
			assert.ErrorIs(t, lost.Err(), holdfast.ErrLeaseLost)
			assert.Equal(t, map[string]string{next.ID(): "1"}, p.Fields(t))
			state, err := p.Lock(rt).Inspect(t.Context())
			require.NoError(t, err)
			assert.Len(t, state.Local, 1, "the lease is known in its process")
			require.NoError(t, rt.Close(t.Context()))
			assert.False(t, p.Exists(t), "and Close releases it")
		})
	}
}
