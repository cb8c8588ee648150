package holdfast_test

import (
	"context"
	"errors"
	"math"
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

// semaphore is the place's semaphore in a runtime of its own, with so many permits.
func semaphore(t *testing.T, p *locktest.Place, permits int) *holdfast.Semaphore {
	t.Helper()
	s := p.Runtime(t, holdfast.Options{}).Semaphore(p.Name)
	set, err := s.TrySetPermits(t.Context(), permits)
	require.NoError(t, err)
	require.True(t, set)
	return s
}

// available checks how many permits there are.
func available(t *testing.T, s *holdfast.Semaphore, want int) {
	t.Helper()
	n, err := s.Available(t.Context())
	require.NoError(t, err)
	assert.Equal(t, want, n)
}

// returned waits until all permits are there again: what was given up is given back in the background. They are never more.
func returned(t *testing.T, s *holdfast.Semaphore, want int) {
	t.Helper()
	are := func() int {
		n, err := s.Available(t.Context())
		require.NoError(t, err)
		return n
	}
	locktest.Await(t, "all permits", func() bool { return are() == want })
	locktest.Stays(t, "no permit too many", 50*time.Millisecond, func() bool { return are() <= want })
	locktest.Await(t, "all permits, still", func() bool { return are() == want })
}

// acquired takes permits that must come in time.
func acquired(t *testing.T, s *holdfast.Semaphore, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	require.NoError(t, s.Acquire(ctx, n))
}

// later acquires in the background.
func later(ctx context.Context, s *holdfast.Semaphore, n int) <-chan error {
	result := make(chan error, 1)
	go func() { result <- s.Acquire(ctx, n) }()
	return result
}

// come waits for a result.
func come(t *testing.T, what string, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(locktest.Patience):
		require.Fail(t, "waiting for "+what)
		return nil
	}
}

// subscribers waits until so many clients listen on a channel.
func subscribers(t *testing.T, p *locktest.Place, channel string, n int64) {
	t.Helper()
	locktest.Await(t, "a subscription", func() bool { return p.Subscribers(t, channel) >= n })
}

func semaphoreChannel(p *locktest.Place) string { return "redisson_sc:{" + p.Name + "}" }

func TestSemaphore_Numbers(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		s := p.Runtime(t, holdfast.Options{}).Semaphore(p.Name)
		ctx := t.Context()
		assert.Equal(t, p.Name, s.Name())
		available(t, s, 0)
		assert.ErrorIs(t, s.TryAcquire(ctx, 1), holdfast.ErrNotAcquired)
		set, err := s.TrySetPermits(ctx, 10)
		require.NoError(t, err)
		assert.True(t, set)
		set, err = s.TrySetPermits(ctx, 20)
		require.NoError(t, err)
		assert.False(t, set, "it is set already")
		require.NoError(t, s.Acquire(ctx, 3))
		require.NoError(t, s.TryAcquire(ctx, 7))
		assert.ErrorIs(t, s.TryAcquire(ctx, 1), holdfast.ErrNotAcquired)
		require.NoError(t, s.Release(ctx, 10))
		require.NoError(t, s.AddPermits(ctx, 5))
		available(t, s, 15)
		require.NoError(t, s.AddPermits(ctx, -20))
		available(t, s, -5)
		assert.ErrorIs(t, s.TryAcquire(ctx, 1), holdfast.ErrNotAcquired)
		require.NoError(t, s.Release(ctx, 7))
		drained, err := s.Drain(ctx)
		require.NoError(t, err)
		assert.Equal(t, 2, drained)
		drained, err = s.Drain(ctx)
		require.NoError(t, err)
		assert.Zero(t, drained)
		deleted, err := s.Delete(ctx)
		require.NoError(t, err)
		assert.True(t, deleted)
		deleted, err = s.Delete(ctx)
		require.NoError(t, err)
		assert.False(t, deleted)
		require.NoError(t, s.Release(ctx, 2), "a release creates it")
		available(t, s, 2)
	})
}

func TestSemaphore_NumbersOutOfRange(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	s := semaphore(t, p, math.MaxInt32)
	ctx := t.Context()
	require.NoError(t, s.Acquire(ctx, math.MaxInt32))
	require.NoError(t, s.Release(ctx, math.MaxInt32))
	require.NoError(t, s.Acquire(ctx, 0), "nothing is taken")
	require.NoError(t, s.TryAcquire(ctx, 0))
	require.NoError(t, s.Release(ctx, 0))
	available(t, s, math.MaxInt32)
	tooMany := math.MaxInt32 + 1
	for name, op := range map[string]func(n int) error{
		"acquire":     func(n int) error { return s.Acquire(ctx, n) },
		"try":         func(n int) error { return s.TryAcquire(ctx, n) },
		"release":     func(n int) error { return s.Release(ctx, n) },
		"set permits": func(n int) error { _, err := s.TrySetPermits(ctx, n); return err },
		"add permits": func(n int) error {
			if n < 0 {
				n = -tooMany
			}
			return s.AddPermits(ctx, n)
		},
	} {
		for _, n := range []int{-1, math.MinInt, tooMany, math.MaxInt} {
			err := op(n)
			assert.ErrorIs(t, err, holdfast.ErrInvalid, "%s %d", name, n)
			assert.ErrorContains(t, err, p.Name)
		}
	}
	available(t, s, math.MaxInt32)
}

func TestSemaphore_BadNameAndForeignKey(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{NameMapper: func(name string) string { return strings.TrimPrefix(name, "alias-") }})
		bad := rt.Semaphore("a{}b")
		for _, err := range append(everySemaphoreError(t.Context(), bad, 1), everySemaphoreError(t.Context(), bad, 0)...) {
			assert.ErrorIs(t, err, holdfast.ErrInvalid)
		}
		lease := locktest.Acquire(t, rt.Lock(p.Name))
		for _, err := range everySemaphoreError(t.Context(), rt.Semaphore("alias-"+p.Name), 1) {
			assert.ErrorIs(t, err, holdfast.ErrForeignKey)
			assert.ErrorContains(t, err, `"alias-`+p.Name+`"`)
		}
		locktest.Release(t, lease)
		require.NoError(t, p.Redis.Set(t.Context(), p.Name, "no number", 0).Err())
		for _, err := range everySemaphoreError(t.Context(), rt.Semaphore(p.Name), 1) {
			assert.ErrorIs(t, err, holdfast.ErrForeignKey)
		}
		assert.Equal(t, "no number", p.Redis.Get(t.Context(), p.Name).Val())
	})
}

// everySemaphoreError is what the operations return.
func everySemaphoreError(ctx context.Context, s *holdfast.Semaphore, n int) []error {
	_, set := s.TrySetPermits(ctx, n)
	_, drained := s.Drain(ctx)
	_, read := s.Available(ctx)
	_, deleted := s.Delete(ctx)
	return []error{set, s.Acquire(ctx, n), s.TryAcquire(ctx, n), s.Release(ctx, n), s.AddPermits(ctx, n), drained, read, deleted}
}

// One permit is a mutual exclusion, over goroutines and processes.
func TestSemaphore_OnePermitExcludes(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rounds := locktest.Scaled(200, 10)
		handles := []*holdfast.Semaphore{semaphore(t, p, 1)}
		for range 3 {
			handles = append(handles, p.Runtime(t, holdfast.Options{}).Semaphore(p.Name))
		}
		count := 0 // guarded by nothing but the semaphore
		var group sync.WaitGroup
		for _, s := range handles {
			for range 4 {
				group.Go(func() {
					for range rounds {
						if !assert.NoError(t, s.Acquire(t.Context(), 1)) {
							return
						}
						count++
						if !assert.NoError(t, s.Release(t.Context(), 1)) {
							return
						}
					}
				})
			}
		}
		group.Wait()
		assert.Equal(t, len(handles)*4*rounds, count)
		available(t, handles[0], 1)
	})
}

// Acquires of one permit or of all of very many: all finish.
func TestSemaphore_OneOrAll(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rounds := locktest.Scaled(40, 4)
		first := semaphore(t, p, math.MaxInt32)
		second := p.Runtime(t, holdfast.Options{}).Semaphore(p.Name)
		var group sync.WaitGroup
		for i := range 8 {
			s, n := first, 1
			if i%2 == 0 {
				s = second
			}
			if i%4 < 2 {
				n = math.MaxInt32
			}
			group.Go(func() {
				for range rounds {
					if !assert.NoError(t, s.Acquire(t.Context(), n)) || !assert.NoError(t, s.Release(t.Context(), n)) {
						return
					}
				}
			})
		}
		group.Wait()
		available(t, first, math.MaxInt32)
	})
}

// Twenty waits end by the message of the other process's release: by polling they would take twenty seconds.
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

// Who waits goes on waiting through releases that are not enough, whoever gives the rest.
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
			result := later(ctx, ours, 4) // of a semaphore that was never set, or has none left
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

// Permits that nobody tells of are found by polling.
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

// Inside a process who waits is served in order of arrival, whatever the others want.
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

// announced tells when somebody begins to wait for the context: the request has been sent then.
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

// inTimeOrLater checks the error of what gives something back although its context has ended: it has half a second, and goes on after
// that if the machine is too busy.
func inTimeOrLater(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		assert.ErrorContains(t, err, "goes on trying")
	}
}

// Waits that end at any moment take nothing along.
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
	locktest.Await(t, "the one too many", func() bool {
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

func TestSemaphore_CloseLeavesNothing(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	client := locktest.NewClient(t, p.Addr)
	require.NoError(t, client.Ping(t.Context()).Err())
	left := labelled(t, func() {
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

// A release that Redis refuses is told to the caller and reported, because permits are missing then.
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

// What Redis keeps for repeats does not pile up while a semaphore is in use, and is gone soon after.
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
	assert.LessOrEqual(t, most, int64(4), "the semaphore, and what was not yet deleted by a next call")
	locktest.Await(t, "nothing but the semaphore", func() bool { return p.Redis.DBSize(t.Context()).Val() == 1 })
	acquired(t, s, 1) // its actor comes back
}

// With every permit in use all the time by waiters for one, in other processes, waiters for three get theirs, and the others are not
// kept out for ever either.
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
	assert.Greater(t, singles[0]+singles[1]+singles[2], rounds, "nor are they")
	assert.Less(t, all/time.Duration(rounds), 2*time.Second)
	returned(t, several, permits)
}

// Who waits for more permits than there will ever be does not keep the others out for ever.
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
