package kinds_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Each of twenty waits ends when the message about the other process's release arrives. With polling, the waits would take twenty seconds.
func TestSemaphore_WakesByMessage(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		const waits = 20
		ours, theirs := semaphore(t, p, 1), p.Runtime(t, holdfast.Options{}).Semaphore(p.Name)
		var waited time.Duration
		for range waits {
			acquired(t, ours, 1)
			result := later(t.Context(), theirs, 1)
			subscribers(t, p, semaphoreChannel(p), 1)
			released := time.Now()
			require.NoError(t, ours.Release(t.Context(), 1))
			require.NoError(t, come(t, "the permit", result))
			waited += time.Since(released)
			require.NoError(t, theirs.Release(t.Context(), 1))
		}
		assert.Less(t, waited, waits*time.Second/2)
	})
}

// As long as the permits are not set, an acquire with a time limit returns an error that says so. An acquire without a limit waits until they are
// set.
func TestSemaphore_NeverSet(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		s := p.Runtime(t, holdfast.Options{}).Semaphore(p.Name)
		tried := func() error { return s.TryAcquire(t.Context(), 1) }
		bounded := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			return s.Acquire(ctx, 1)
		}
		const never = "SetPermits was never called"
		for range 2 {
			assert.ErrorIs(t, tried(), holdfast.ErrNotAcquired)
			assert.ErrorContains(t, tried(), never)
			locktest.Await(t, "Redis to answer within the wait", func() bool {
				err := bounded()
				require.ErrorIs(t, err, holdfast.ErrNotAcquired)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				return strings.Contains(err.Error(), never)
			})
			waiting := later(t.Context(), s, 1)
			subscribers(t, p, semaphoreChannel(p), 1)
			assert.ErrorContains(t, tried(), never, "behind a waiter")
			set, err := s.TrySetPermits(t.Context(), 1)
			require.NoError(t, err)
			require.True(t, set)
			require.NoError(t, come(t, "the permit", waiting))
			assert.ErrorContains(t, tried(), "available 0, wanted 1")
			assert.NotContains(t, bounded().Error(), never)
			deleted, err := s.Delete(t.Context())
			require.NoError(t, err)
			require.True(t, deleted)
		}
	})
}

// A waiter keeps waiting until enough permits are free, whether they are released, added or set.
func TestSemaphore_WaitsUntilThereAreEnough(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		ours, theirs := p.Runtime(t, holdfast.Options{}).Semaphore(p.Name), p.Runtime(t, holdfast.Options{}).Semaphore(p.Name)
		for name, give := range map[string]func(n int) error{
			"released": func(n int) error { return theirs.Release(t.Context(), n) },
			"added":    func(n int) error { return theirs.AddPermits(t.Context(), n) },
			"set": func(n int) error {
				if _, err := theirs.Delete(t.Context()); err != nil {
					return err
				}
				_, err := theirs.TrySetPermits(t.Context(), n+1)
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
			result := later(ctx, ours, 4) // the semaphore was never set, or has no permits left
			subscribers(t, p, semaphoreChannel(p), 1)
			require.NoError(t, give(1))
			select {
			case err := <-result:
				require.Fail(t, "too early", "%s: %v", name, err)
			case <-time.After(100 * time.Millisecond):
			}
			require.NoError(t, give(3))
			require.NoError(t, come(t, "the permits", result), name)
			cancel()
			available(t, ours, 0)
		}
	})
}

// Permits that are added without a message are found by polling.
func TestSemaphore_ProgressWithoutNotifications(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		s := semaphore(t, p, 0)
		result := later(t.Context(), s, 2)
		subscribers(t, p, semaphoreChannel(p), 1)
		require.NoError(t, p.Redis.IncrBy(t.Context(), p.Name, 2).Err())
		require.NoError(t, come(t, "the permits", result))
		available(t, s, 0)
	})
}

// A process serves its waiters in order of arrival, no matter how many permits each of them wants.
func TestSemaphore_InOrderOfArrival(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		const waiters = 60
		s := semaphore(t, p, 0)
		wants, served := make([]int, waiters), make(chan int, waiters)
		var group sync.WaitGroup
		for i := range wants {
			wants[i] = 1 + rand.IntN(4)
			asked := make(chan struct{})
			group.Go(func() {
				if assert.NoError(t, s.Acquire(&announced{Context: t.Context(), asked: asked}, wants[i])) {
					served <- i
				}
			})
			<-asked
		}
		for i, n := range wants {
			require.NoError(t, s.Release(t.Context(), n))
			select {
			case next := <-served:
				require.Equal(t, i, next)
			case <-time.After(locktest.Patience):
				require.Fail(t, "nobody is served")
			}
		}
		group.Wait()
		available(t, s, 0)
	})
}

// announced is a context that closes the channel `asked` when a caller first waits for the end of the context. By then the caller has sent its
// request.
type announced struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (a *announced) Done() <-chan struct{} {
	a.once.Do(func() { close(a.asked) })
	return a.Context.Done()
}

func TestSemaphore_TryBehindWaiters(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		s := semaphore(t, p, 2)
		ctx, cancel := context.WithCancel(t.Context())
		result := later(ctx, s, 3)
		subscribers(t, p, semaphoreChannel(p), 1)
		err := s.TryAcquire(t.Context(), 1)
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorContains(t, err, "others wait")
		cancel()
		err = come(t, "the end of the wait", result)
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorIs(t, err, context.Canceled)
		require.NoError(t, s.TryAcquire(t.Context(), 2))
	})
}

func TestSemaphore_TooManyWaiters(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	rt := p.Runtime(t, holdfast.Options{MaxWaiters: 3})
	s := rt.Semaphore(p.Name)
	ctx, cancel := context.WithCancel(t.Context())
	var results []<-chan error
	for range 4 {
		results = append(results, later(ctx, s, 1))
	}
	var failed error
	locktest.Await(t, "one waiter too many to be refused", func() bool {
		for _, result := range results {
			select {
			case failed = <-result:
				return true
			default:
			}
		}
		return false
	})
	assert.ErrorIs(t, failed, holdfast.ErrTooManyWaiters)
	cancel()
}

// One process acquires three permits at a time, and does not starve although the other processes keep all permits in use. The waiters of the other
// processes, which want one permit each, do not starve either.
func TestSemaphore_WaitersForSeveralAreNotStarved(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	const permits = 3
	several := semaphore(t, p, permits)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var singles [3]int
	var mu sync.Mutex
	for i := range singles {
		s := p.Runtime(t, holdfast.Options{}).Semaphore(p.Name)
		for range 8 {
			group.Go(func() {
				for s.Acquire(ctx, 1) == nil {
					<-time.After(20*time.Millisecond + rand.N(20*time.Millisecond)) // so that three are hardly ever free together
					assert.NoError(t, s.Release(context.WithoutCancel(ctx), 1))
					mu.Lock()
					singles[i]++
					mu.Unlock()
				}
			})
		}
	}
	rounds := locktest.Scaled(40, 5)
	var worst, all time.Duration
	for range rounds {
		began := time.Now()
		acquired(t, several, permits)
		took := time.Since(began)
		worst, all = max(worst, took), all+took
		require.NoError(t, several.Release(t.Context(), permits))
		<-time.After(50 * time.Millisecond)
	}
	cancel()
	group.Wait()
	t.Logf("%d waits for %d of %d permits: %v on average, %v at most; the others were served %v times meanwhile",
		rounds, permits, permits, (all / time.Duration(rounds)).Round(time.Millisecond), worst.Round(time.Millisecond), singles)
	assert.Greater(t, singles[0]+singles[1]+singles[2], rounds, "the waiters for one permit do not starve")
	assert.Less(t, all/time.Duration(rounds), 2*time.Second)
	returned(t, several, permits)
}

// A waiter that wants more permits than there will ever be does not block the others for ever.
func TestSemaphore_WhoWantsTooMuchLeavesRoom(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	s := semaphore(t, p, 3)
	ctx, cancel := context.WithCancel(t.Context())
	var greedy []<-chan error
	for range 3 {
		greedy = append(greedy, later(ctx, p.Runtime(t, holdfast.Options{}).Semaphore(p.Name), 4))
	}
	locktest.Await(t, "a reservation", func() bool { return p.Redis.Exists(t.Context(), "holdfast_want:{"+p.Name+"}").Val() > 0 })
	for range locktest.Scaled(20, 3) {
		acquired(t, s, 1)
		require.NoError(t, s.Release(t.Context(), 1))
	}
	cancel()
	for _, result := range greedy {
		assert.True(t, errors.Is(come(t, "the end of the wait", result), context.Canceled))
	}
}
