package holdfast_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

func TestPending_IsDoneWithTheGrant(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt := p.runtime(t, holdfast.Options{})
		first := p.lock(rt).AcquireAsync(t.Context())
		closed(t, "the grant", first.Done())
		second := p.lock(rt).AcquireAsync(t.Context())
		p.waitForWaiting(t, rt, 1)
		open(t, "the second grant", second.Done())

		lease, err := first.Lease()
		require.NoError(t, err)
		again, err := first.Lease()
		require.NoError(t, err)
		assert.Same(t, lease, again, "all calls return the same lease")
		assert.True(t, lease.Valid())
		release(t, lease)
		closed(t, "the second grant", second.Done())
		next, err := second.Lease()
		require.NoError(t, err)
		release(t, next)
	})
}

func TestPending_CancelBeforeTheGrantEndsTheWaiting(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt := p.runtime(t, holdfast.Options{})
		holder := acquire(t, p.lock(rt))
		pending := p.lock(rt).AcquireAsync(t.Context())
		pending.Cancel()
		pending.Cancel()
		_, err := pending.Lease()
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, p.name)
		release(t, holder)
		assert.False(t, p.exists(t))
	})
}

func TestPending_CancelOfAGrantFreesWhatNobodyTook(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt := p.runtime(t, holdfast.Options{})
		pending := p.lock(rt).AcquireAsync(t.Context())
		closed(t, "the grant", pending.Done())
		pending.Cancel()
		await(t, "the release", func() bool { return !p.exists(t) })
		_, err := pending.Lease()
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorIs(t, err, context.Canceled)

		taken := p.lock(rt).AcquireAsync(t.Context())
		lease, err := taken.Lease()
		require.NoError(t, err)
		taken.Cancel()
		assert.True(t, lease.Valid(), "one that was taken stays with its taker")
		again, err := taken.Lease()
		require.NoError(t, err)
		assert.Same(t, lease, again)
		release(t, lease)
	})
}

// A cancel that meets the grant ends in one of two ways: no lease and a free lock, or a lease that somebody has taken.
func TestPending_CancelRacesWithTheGrant(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt := p.runtime(t, holdfast.Options{})
		for i := range 300 {
			pending := p.lock(rt).AcquireAsync(t.Context())
			start := time.Now()
			for time.Since(start) < time.Duration(i)*3*time.Microsecond {
			}
			pending.Cancel()
			_, err := pending.Lease()
			require.ErrorIs(t, err, holdfast.ErrNotAcquired, "nobody took it before the cancel")
		}
		await(t, "the release", func() bool { return !p.exists(t) })
		for range 100 {
			pending := p.lock(rt).AcquireAsync(t.Context())
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
		await(t, "the release", func() bool { return !p.exists(t) })
	})
}

func TestPending_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt := p.runtime(t, holdfast.Options{})
		holder := acquire(t, p.lock(rt))

		ctx, cancel := context.WithCancel(t.Context())
		pending := p.lock(rt).AcquireAsync(ctx)
		p.waitForWaiting(t, rt, 1)
		cancel()
		_, err := pending.Lease()
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorIs(t, err, context.Canceled)

		_, err = p.lock(rt).AcquireAsync(ctx).Lease()
		assert.ErrorIs(t, err, context.Canceled, "it had ended before")

		_, err = p.lock(rt).AcquireAsync(t.Context(), holdfast.WithWait(20*time.Millisecond)).Lease()
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		release(t, holder)

		ctx, cancel = context.WithCancel(t.Context())
		lease, err := p.lock(rt).AcquireAsync(ctx).Lease()
		require.NoError(t, err)
		cancel()
		stays(t, "a lease does not end with the context", 50*time.Millisecond, lease.Valid)
		release(t, lease)
	})
}

func TestPending_ReportsWhatIsInvalid(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		pending := p.lock(p.runtime(t, holdfast.Options{})).AcquireAsync(t.Context(), holdfast.WithLease(time.Millisecond))
		closed(t, "the refusal", pending.Done())
		pending.Cancel()
		_, err := pending.Lease()
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
	})
}
