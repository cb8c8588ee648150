package kinds_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func TestMultiLock_IsLostWithAnyMember(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		m := newTeam(p, 3, p.Runtime(t, holdfast.Options{Lease: locktest.Unhurried(time.Second)}), p.Runtime(t, holdfast.Options{Lease: locktest.Unhurried(time.Second)}))
		for i, place := range m.places {
			lease := acquireAll(t, holdfast.Multi(m.locks...))
			ctx, cancel := lease.Context(t.Context())
			require.Equal(t, int64(1), place.Redis.Del(t.Context(), place.Name).Val())

			locktest.Closed(t, "the lease's end", lease.Done())
			locktest.Closed(t, "the context's end", ctx.Done())
			assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
			assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLeaseLost)
			assert.False(t, lease.Valid())
			assert.Zero(t, lease.ExpiresAt())
			locktest.Await(t, "the others to be released", func() bool { return len(m.held(t)) == 0 })
			assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost, "member %d", i)
			assert.ErrorIs(t, lease.Extend(t.Context(), time.Minute), holdfast.ErrLeaseLost)
			cancel()
		}
	})
}

// A release reports a lost member that no renewal has noticed yet, and still releases the other members.
func TestMultiLock_ReleaseTellsOfALostMember(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		m := newTeam(p, 3, p.Runtime(t, holdfast.Options{}))
		lease := acquireAll(t, holdfast.Multi(m.locks...))
		require.NoError(t, p.Redis.Del(t.Context(), m.places[1].Name).Err())

		err := lease.Release(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrLeaseLost)
		assert.ErrorContains(t, err, m.places[1].Name, "the error names the member")
		assert.Empty(t, m.held(t))
	})
}

func TestMultiLock_DoEndsItsContextWithAnyMember(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		m := newTeam(p, 3, p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{}))
		err := holdfast.Multi(m.locks...).Do(t.Context(), func(ctx context.Context) error {
			assert.NoError(t, ctx.Err())
			_, err := m.locks[1].ForceRelease(ctx)
			require.NoError(t, err)
			locktest.Closed(t, "the context's end", ctx.Done())
			assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLeaseLost)
			return errFn
		})
		assert.ErrorIs(t, err, errFn)
		assert.ErrorIs(t, err, holdfast.ErrLeaseLost)
		assert.ErrorContains(t, err, "2 of 3 members are left")
		locktest.Await(t, "nothing to be left", func() bool { return len(m.held(t)) == 0 })
		assert.ErrorIs(t, holdfast.Multi(m.locks...).Do(t.Context(), nil), holdfast.ErrInvalid)
	})
}

// If a member is lost while the others are being acquired, the acquire fails. It never returns a lease that has already ended.
func TestMultiLock_IsNotAcquiredWithoutAMember(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		far, proxy := p.Proxied(t, holdfast.Options{})
		m := newTeam(p, 2, p.Runtime(t, holdfast.Options{}), far)
		locktest.Release(t, locktest.Acquire(t, m.locks[1])) // opens the connection
		proxy.Delay(faultproxy.ToServer, time.Second)
		tried := make(chan error)
		go func() {
			_, err := holdfast.Multi(m.locks...).TryAcquire(t.Context())
			tried <- err
		}()
		locktest.Await(t, "the first member", func() bool {
			state, err := m.locks[0].Inspect(t.Context())
			return assert.NoError(t, err) && len(state.Local) == 1
		})
		_, err := m.locks[0].ForceRelease(t.Context())
		require.NoError(t, err)

		err = <-tried
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorIs(t, err, holdfast.ErrLeaseLost)
		assert.ErrorContains(t, err, m.places[0].Name)
		proxy.Heal()
		locktest.Await(t, "nothing to be left", func() bool { return len(m.held(t)) == 0 })
	})
}

func TestMultiLock_EndsWithARuntime(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		closing := p.Runtime(t, holdfast.Options{})
		m := newTeam(p, 4, p.Runtime(t, holdfast.Options{}), closing)
		multi := holdfast.Multi(m.locks...)
		lease := acquireAll(t, multi)
		waited := make(chan error)
		go func() {
			_, err := multi.Acquire(t.Context())
			waited <- err
		}()
		m.places[0].WaitForWaiting(t, m.runtimes[0], 1)

		require.NoError(t, closing.Close(t.Context()))
		locktest.Closed(t, "the lease's end", lease.Done())
		assert.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
		assert.NoError(t, lease.Release(t.Context()))
		assert.ErrorIs(t, <-waited, holdfast.ErrClosed)
		_, err := multi.TryAcquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		locktest.Await(t, "nothing to be left", func() bool { return len(m.held(t)) == 0 })
	})
}

func TestMultiLock_ExpiresWithItsEarliestMember(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		short, long := p.Runtime(t, holdfast.Options{Lease: time.Minute}), p.Runtime(t, holdfast.Options{Lease: time.Hour})
		m := newTeam(p, 3, long, short, long)
		before := time.Now()
		lease := acquireAll(t, holdfast.Multi(m.locks...))
		margin := time.Minute/100 + 2*time.Millisecond
		assert.False(t, lease.ExpiresAt().Before(before.Add(time.Minute-margin)))
		assert.False(t, lease.ExpiresAt().After(time.Now().Add(time.Minute-margin)))
		assert.ErrorIs(t, lease.Extend(t.Context(), time.Minute), holdfast.ErrInvalid, "the watchdogs renew it")
		locktest.Release(t, lease)
	})
}

func TestMultiLock_FixedLeaseIsExtended(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		m := newTeam(p, 3, p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{}))
		lease := acquireAll(t, holdfast.Multi(m.locks...), holdfast.WithLease(time.Minute))
		require.NoError(t, lease.Extend(t.Context(), time.Hour))
		assert.Greater(t, time.Until(lease.ExpiresAt()), 30*time.Minute)
		for _, place := range m.places {
			assert.Greater(t, p.Redis.PTTL(t.Context(), place.Name).Val(), 30*time.Minute)
		}
		assert.ErrorIs(t, lease.Extend(t.Context(), time.Millisecond), holdfast.ErrInvalid)
		if err := lease.Extend(t.Context(), 100*time.Millisecond); err != nil { // the lease may end before the answer arrives
			assert.ErrorIs(t, err, holdfast.ErrLeaseLost)
		}
		locktest.Closed(t, "the lease's end", lease.Done())
		assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
		assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
		locktest.Await(t, "nothing to be left", func() bool { return len(m.held(t)) == 0 })
	})
}

var errFn = errors.New("fn failed")

func TestMultiLock_OwnersReenter(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		one, two := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		m := newTeam(p, 3, one, two)
		all, some := holdfast.Multi(m.locks...), holdfast.Multi(m.locks[2], m.locks[1])
		err := all.Do(t.Context(), func(ctx context.Context) error {
			return some.Do(ctx, func(ctx context.Context) error {
				return m.locks[1].Do(ctx, func(ctx context.Context) error {
					lease, err := holdfast.Red(m.locks...).TryAcquire(ctx)
					require.NoError(t, err)
					assert.Len(t, m.held(t), 3)
					return lease.Release(ctx)
				})
			})
		})
		assert.NoError(t, err)
		assert.Empty(t, m.held(t))

		owner := one.NewOwner()
		_, err = all.TryAcquire(t.Context(), holdfast.WithOwner(owner))
		assert.ErrorIs(t, err, holdfast.ErrInvalid, "a member belongs to another runtime")
		own := holdfast.Multi(m.of(one)...)
		first, again := acquireAll(t, own, holdfast.WithOwner(owner)), acquireAll(t, own, holdfast.WithOwner(owner))
		assert.Equal(t, first.ID(), again.ID())
		locktest.Release(t, first)
		assert.True(t, again.Valid())
		assert.Len(t, m.held(t), 3)
		locktest.Release(t, again)
		assert.Empty(t, m.held(t))
	})
}

func TestMultiLock_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		m := newTeam(p, 2, rt)
		for what, locks := range map[string][]*holdfast.Lock{
			"no locks": nil,
			"nil":      {m.locks[0], nil},
			"twice":    {m.locks[0], m.locks[1], rt.Lock(m.places[0].Name)},
			"bad name": {m.locks[0], rt.Lock("{a")},
		} {
			for kind, of := range map[string]func(...*holdfast.Lock) *holdfast.MultiLock{"multi": holdfast.Multi, "red": holdfast.Red} {
				_, err := of(locks...).TryAcquire(t.Context())
				assert.ErrorIs(t, err, holdfast.ErrInvalid, "%s %s", kind, what)
				assert.ErrorContains(t, err, "acquire")
				err = of(locks...).Do(t.Context(), func(context.Context) error { return nil })
				assert.ErrorIs(t, err, holdfast.ErrInvalid, "%s %s", kind, what)
			}
		}
		for _, option := range []holdfast.AcquireOption{holdfast.WithLease(0), holdfast.WithWait(-1)} {
			_, err := holdfast.Multi(m.locks...).Acquire(t.Context(), option)
			assert.ErrorIs(t, err, holdfast.ErrInvalid)
		}
		_, err := holdfast.Multi(m.locks...).TryAcquire(t.Context(), holdfast.WithWait(time.Second))
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.Empty(t, m.held(t))
	})
}

func TestMultiLock_GivesBackAfterAPanic(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		m := newTeam(p, 3, p.Runtime(t, holdfast.Options{}))
		assert.PanicsWithValue(t, "oops", func() {
			_ = holdfast.Multi(m.locks...).Do(t.Context(), func(context.Context) error { panic("oops") })
		})
		assert.Empty(t, m.held(t))
		for calls := range int32(12) { // a caller's context may do anything, even panic
			ctx := &panicky{Context: t.Context()}
			ctx.left.Store(calls)
			lease, err := (*holdfast.Lease)(nil), errors.New("panicked")
			func() {
				defer func() { _ = recover() }()
				lease, err = holdfast.Multi(m.locks...).Acquire(ctx)
			}()
			if err == nil {
				require.NoError(t, lease.Release(t.Context()))
			}
			locktest.Await(t, "nothing to be left", func() bool { return len(m.held(t)) == 0 })
		}
	})
}

// panicky is a context whose Err panics after n calls.
type panicky struct {
	context.Context
	left atomic.Int32
}

func (p *panicky) Err() error {
	if p.left.Add(-1) < 0 {
		panic("oops")
	}
	return p.Context.Err()
}
