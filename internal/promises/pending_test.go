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

func TestPending_IsDoneWithTheGrant(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		first := p.Lock(rt).AcquireAsync(t.Context())
		locktest.Closed(t, "the grant", first.Done())
		second := p.Lock(rt).AcquireAsync(t.Context())
		p.WaitForWaiting(t, rt, 1)
		locktest.Open(t, "the second grant", second.Done())

		lease, err := first.Lease()
		require.NoError(t, err)
		again, err := first.Lease()
		require.NoError(t, err)
		assert.Same(t, lease, again, "all calls return the same lease")
		assert.True(t, lease.Valid())
		locktest.Release(t, lease)
		locktest.Closed(t, "the second grant", second.Done())
		next, err := second.Lease()
		require.NoError(t, err)
		locktest.Release(t, next)
	})
}

func TestPending_CancelBeforeTheGrantEndsTheWaiting(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		holder := locktest.Acquire(t, p.Lock(rt))
		pending := p.Lock(rt).AcquireAsync(t.Context())
		pending.Cancel()
		pending.Cancel()
		_, err := pending.Lease()
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, p.Name)
		locktest.Release(t, holder)
		assert.False(t, p.Exists(t))
	})
}

func TestPending_CancelOfAGrantFreesWhatNobodyTook(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		pending := p.Lock(rt).AcquireAsync(t.Context())
		locktest.Closed(t, "the grant", pending.Done())
		pending.Cancel()
		locktest.Await(t, "the release", func() bool { return !p.Exists(t) })
		_, err := pending.Lease()
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorIs(t, err, context.Canceled)

		taken := p.Lock(rt).AcquireAsync(t.Context())
		lease, err := taken.Lease()
		require.NoError(t, err)
		taken.Cancel()
		assert.True(t, lease.Valid(), "a lease that the caller has taken stays valid")
		again, err := taken.Lease()
		require.NoError(t, err)
		assert.Same(t, lease, again)
		locktest.Release(t, lease)
	})
}

// A cancel that races with the grant ends in one of two ways: no lease and a free lock, or a lease that the caller has taken.
func TestPending_CancelRacesWithTheGrant(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, tries := p.Runtime(t, holdfast.Options{}), 300
		if p.Kind.Queued { // each cancelled waiter leaves Redis' queue, and those behind it move up
			tries = 50
		}
		for i := range tries {
			pending := p.Lock(rt).AcquireAsync(t.Context())
			start := time.Now()
			for time.Since(start) < time.Duration(i)*900/time.Duration(tries)*time.Microsecond {
			}
			pending.Cancel()
			_, err := pending.Lease()
			require.ErrorIs(t, err, holdfast.ErrNotAcquired, "the grant was not taken before the cancel")
		}
		locktest.Await(t, "the release", func() bool { return !p.Exists(t) })
		for range tries / 3 {
			pending := p.Lock(rt).AcquireAsync(t.Context())
			var both sync.WaitGroup
			both.Go(pending.Cancel)
			both.Go(func() {
				if lease, err := pending.Lease(); err == nil {
					assert.True(t, lease.Valid())
					assert.NoError(t, lease.Release(context.Background()))
				}
			})
			both.Wait()
		}
		locktest.Await(t, "the release", func() bool { return !p.Exists(t) })
	})
}

func TestPending_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		holder := locktest.Acquire(t, p.Lock(rt))

		ctx, cancel := context.WithCancel(t.Context())
		pending := p.Lock(rt).AcquireAsync(ctx)
		p.WaitForWaiting(t, rt, 1)
		cancel()
		_, err := pending.Lease()
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorIs(t, err, context.Canceled)

		_, err = p.Lock(rt).AcquireAsync(ctx).Lease()
		assert.ErrorIs(t, err, context.Canceled, "it had ended before")

		_, err = p.Lock(rt).AcquireAsync(t.Context(), holdfast.WithWait(20*time.Millisecond)).Lease()
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		locktest.Release(t, holder)

		ctx, cancel = context.WithCancel(t.Context())
		lease, err := p.Lock(rt).AcquireAsync(ctx).Lease()
		require.NoError(t, err)
		cancel()
		locktest.Stays(t, "a lease does not end with the context", 50*time.Millisecond, lease.Valid)
		locktest.Release(t, lease)
	})
}

func TestPending_ReportsWhatIsInvalid(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		pending := p.Lock(p.Runtime(t, holdfast.Options{})).AcquireAsync(t.Context(), holdfast.WithLease(time.Millisecond))
		locktest.Closed(t, "the refusal", pending.Done())
		pending.Cancel()
		_, err := pending.Lease()
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
	})
}
