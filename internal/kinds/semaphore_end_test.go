package kinds_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func TestSemaphore_ContextThatHasEnded(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		s := semaphore(t, p, 5)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range []error{s.Acquire(ctx, 1), s.TryAcquire(ctx, 1)} {
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
			assert.ErrorIs(t, err, context.Canceled)
		}
		_, err := s.Drain(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, s.AddPermits(ctx, 1), context.Canceled)
		available(t, s, 5)
		acquired(t, s, 1)
		inTimeOrLater(t, s.Release(ctx, 1))
		returned(t, s, 5)
	})
}

// inTimeOrLater checks the error of a release whose context has ended. Such a release has half a second to be confirmed. If a busy machine needs
// longer, the release returns an error, and continues in the background.
func inTimeOrLater(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		assert.ErrorContains(t, err, "goes on trying")
	}
}

// No permit is lost, no matter at which instant a wait ends.
func TestSemaphore_CancelLosesNoPermit(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		const permits = 3
		first := semaphore(t, p, permits)
		second := p.Runtime(t, holdfast.Options{}).Semaphore(p.Name)
		var group sync.WaitGroup
		for i := range 16 {
			s := []*holdfast.Semaphore{first, second}[i%2]
			group.Go(func() {
				for range locktest.Scaled(200, 20) {
					n := 1 + rand.IntN(permits)
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
					err := s.Acquire(ctx, n)
					cancel()
					if err != nil {
						assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
						continue
					}
					if !assert.NoError(t, s.Release(t.Context(), n)) {
						return
					}
				}
			})
		}
		group.Wait()
		returned(t, first, permits)
	})
}

func TestSemaphore_CloseLeavesNothing(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	client := locktest.NewClient(t, p.Addr)
	require.NoError(t, client.Ping(t.Context()).Err())
	left := locktest.GoroutinesLeft(t, func() {
		rt := locktest.NewRuntime(t, client, holdfast.Options{})
		s := rt.Semaphore(p.Name)
		_, err := s.TrySetPermits(t.Context(), 2)
		require.NoError(t, err)
		acquired(t, s, 1)
		require.NoError(t, s.Release(t.Context(), 1))
		var waiters sync.WaitGroup
		for range 50 {
			waiters.Go(func() { assert.ErrorIs(t, s.Acquire(t.Context(), 3), holdfast.ErrClosed) })
		}
		locktest.Await(t, "a reservation", func() bool { return p.Redis.Exists(t.Context(), "holdfast_want:{"+p.Name+"}").Val() > 0 })
		require.NoError(t, rt.Close(t.Context()))
		waiters.Wait()
		for _, err := range everySemaphoreError(t.Context(), s, 1) {
			assert.ErrorIs(t, err, holdfast.ErrClosed)
		}
	})
	assert.Equal(t, 1, left, "goroutines, the test's own among them")
	assert.Equal(t, []string{p.Name}, p.Redis.Keys(t.Context(), "*").Val(), "no result, no reservation")
	assert.Equal(t, "2", p.Redis.Get(t.Context(), p.Name).Val())
	assert.Empty(t, p.Redis.PubSubChannels(t.Context(), "*").Val())
}

// If Redis refuses a release, permits are missing. So the caller gets an error, and OnEvent is called.
func TestSemaphore_RefusedReleaseIsReported(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		var seen locktest.Recorder
		s := p.Runtime(t, holdfast.Options{OnEvent: seen.Record}).Semaphore(p.Name)
		require.NoError(t, s.Release(t.Context(), 1))
		acquired(t, s, 1)
		require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
		require.NoError(t, p.Redis.HSet(t.Context(), p.Name, "somebody", "else").Err())
		assert.ErrorIs(t, s.Release(t.Context(), 1), holdfast.ErrForeignKey)
		locktest.Await(t, "the event", func() bool { return len(locktest.Recorded[holdfast.Unconfirmed](&seen)) == 1 })
		event := locktest.Recorded[holdfast.Unconfirmed](&seen)[0]
		assert.Equal(t, p.Name, event.Lock())
		assert.Equal(t, "release", event.Do)
		assert.ErrorIs(t, event.Err, holdfast.ErrForeignKey)
	})
}

// Redis keeps the results of calls for a while, in case the calls are repeated. While a semaphore is in use, these results do not pile up. Soon
// after the semaphore's last use, they are gone.
func TestSemaphore_ResultsDoNotPileUp(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	s := semaphore(t, p, 10)
	most := int64(0)
	for range locktest.Scaled(2000, 100) {
		acquired(t, s, 1)
		require.NoError(t, s.Release(t.Context(), 1))
		most = max(most, p.Redis.DBSize(t.Context()).Val())
	}
	assert.LessOrEqual(t, most, int64(4), "the semaphore, and results that no later call has deleted yet")
	locktest.Await(t, "nothing but the semaphore", func() bool { return p.Redis.DBSize(t.Context()).Val() == 1 })
	acquired(t, s, 1) // the semaphore still works, perhaps with a new actor
}
