package kinds_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// latch sets the place's latch to the given count, in a new runtime, and returns it.
func latch(t *testing.T, p *locktest.Place, count int) *holdfast.CountDownLatch {
	t.Helper()
	l := p.Runtime(t, holdfast.Options{}).CountDownLatch(p.Name)
	set, err := l.TrySetCount(t.Context(), count)
	require.NoError(t, err)
	require.True(t, set)
	return l
}

// counts asserts the latch's count.
func counts(t *testing.T, l *holdfast.CountDownLatch, want int) {
	t.Helper()
	n, err := l.Count(t.Context())
	require.NoError(t, err)
	assert.Equal(t, want, n)
}

// waiting waits for a latch in the background.
func waiting(ctx context.Context, l *holdfast.CountDownLatch) <-chan error {
	result := make(chan error, 1)
	go func() { result <- l.Wait(ctx) }()
	return result
}

func latchChannel(p *locktest.Place) string {
	return "redisson_countdownlatch__channel__{" + p.Name + "}"
}

func TestLatch_Numbers(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		l := p.Runtime(t, holdfast.Options{}).CountDownLatch(p.Name)
		ctx := t.Context()
		assert.Equal(t, p.Name, l.Name())
		counts(t, l, 0)
		require.NoError(t, l.CountDown(ctx), "nothing to count")
		require.NoError(t, l.Wait(ctx), "nothing to wait for")
		set, err := l.TrySetCount(ctx, 2)
		require.NoError(t, err)
		assert.True(t, set)
		set, err = l.TrySetCount(ctx, 5)
		require.NoError(t, err)
		assert.False(t, set)
		require.NoError(t, l.CountDown(ctx))
		counts(t, l, 1)
		require.NoError(t, l.CountDown(ctx))
		counts(t, l, 0)
		require.NoError(t, l.CountDown(ctx), "one too many")
		counts(t, l, 0)
		require.NoError(t, l.Wait(ctx))
		set, err = l.TrySetCount(ctx, 3)
		require.NoError(t, err)
		assert.True(t, set, "it can be used again")
		deleted, err := l.Delete(ctx)
		require.NoError(t, err)
		assert.True(t, deleted)
		deleted, err = l.Delete(ctx)
		require.NoError(t, err)
		assert.False(t, deleted)
		set, err = l.TrySetCount(ctx, 0)
		require.NoError(t, err)
		assert.True(t, set)
		set, err = l.TrySetCount(ctx, 1)
		require.NoError(t, err)
		assert.False(t, set, "zero is a count, as with Redisson")
		require.NoError(t, l.Wait(ctx))
	})
}

func TestLatch_BadArguments(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	rt := p.Runtime(t, holdfast.Options{})
	for _, n := range []int{-1, math.MaxInt32 + 1} {
		_, err := rt.CountDownLatch(p.Name).TrySetCount(t.Context(), n)
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
	}
	every := func(l *holdfast.CountDownLatch) []error {
		_, set := l.TrySetCount(t.Context(), 1)
		_, read := l.Count(t.Context())
		_, deleted := l.Delete(t.Context())
		return []error{set, read, deleted, l.CountDown(t.Context()), l.Wait(t.Context())}
	}
	for _, err := range every(rt.CountDownLatch("")) {
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
	}
	lease := locktest.Acquire(t, rt.Lock(p.Name))
	for _, err := range every(rt.CountDownLatch(p.Name)) {
		assert.ErrorIs(t, err, holdfast.ErrForeignKey)
		assert.ErrorContains(t, err, p.Name)
	}
	locktest.Release(t, lease)
	require.NoError(t, rt.Close(t.Context()))
	for _, err := range every(rt.CountDownLatch(p.Name)) {
		assert.ErrorIs(t, err, holdfast.ErrClosed)
	}
}

// The message of the last count-down wakes all waiters in all processes.
func TestLatch_WakesAll(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		const rounds = 10
		handles := []*holdfast.CountDownLatch{latch(t, p, 3)}
		for range 2 {
			handles = append(handles, p.Runtime(t, holdfast.Options{}).CountDownLatch(p.Name))
		}
		var waited time.Duration
		for round := range rounds {
			var results []<-chan error
			for _, l := range handles {
				for range 10 {
					results = append(results, waiting(t.Context(), l))
				}
			}
			subscribers(t, p, latchChannel(p), int64(len(handles)))
			for i, l := range handles {
				for _, result := range results {
					select {
					case err := <-result:
						require.Fail(t, "too early", "%d of 3 in round %d: %v", i, round, err)
					default:
					}
				}
				require.NoError(t, l.CountDown(t.Context()))
			}
			zero := time.Now()
			for _, result := range results {
				require.NoError(t, come(t, "zero", result))
			}
			waited += time.Since(zero)
			set, err := handles[0].TrySetCount(t.Context(), 3)
			require.NoError(t, err)
			require.True(t, set)
		}
		assert.Less(t, waited, rounds*time.Second/2, "polling would take a second each time")
	})
}

// When many goroutines and processes count down at once, each count-down counts.
func TestLatch_CountsEach(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		each := locktest.Scaled(200, 20)
		const goroutines = 16
		first := latch(t, p, goroutines*each+1)
		second := p.Runtime(t, holdfast.Options{}).CountDownLatch(p.Name)
		var group sync.WaitGroup
		for i := range goroutines {
			l := []*holdfast.CountDownLatch{first, second}[i%2]
			group.Go(func() {
				for range each {
					assert.NoError(t, l.CountDown(t.Context()))
				}
			})
		}
		group.Wait()
		counts(t, first, 1)
		result := waiting(t.Context(), second)
		subscribers(t, p, latchChannel(p), 1)
		require.NoError(t, first.CountDown(t.Context()))
		require.NoError(t, come(t, "zero", result))
	})
}

// A latch may end without its waiters receiving a message: the latch is evicted or deleted by hand, or the message is lost. Our waiters then notice
// the end by polling, whereas Redisson's waiters hang.
func TestLatch_ProgressWithoutNotifications(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		l := latch(t, p, 1)
		result := waiting(t.Context(), l)
		subscribers(t, p, latchChannel(p), 1)
		require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
		require.NoError(t, come(t, "the look", result))
	})
}

func TestLatch_DeleteEndsTheWait(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		l := latch(t, p, 1)
		result := waiting(t.Context(), p.Runtime(t, holdfast.Options{}).CountDownLatch(p.Name))
		subscribers(t, p, latchChannel(p), 1)
		deleted, err := l.Delete(t.Context())
		require.NoError(t, err)
		assert.True(t, deleted)
		require.NoError(t, come(t, "the end of the wait", result))
	})
}

func TestLatch_ContextAndClose(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		l := rt.CountDownLatch(p.Name)
		_, err := l.TrySetCount(t.Context(), 2)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, l.Wait(ctx), context.DeadlineExceeded)
		assert.ErrorIs(t, l.Wait(ctx), context.DeadlineExceeded, "ended before")
		inTimeOrLater(t, l.CountDown(ctx))
		locktest.Await(t, "the count-down", func() bool {
			n, err := l.Count(t.Context())
			return assert.NoError(t, err) && n == 1
		})
		result := waiting(t.Context(), l)
		subscribers(t, p, latchChannel(p), 1)
		require.NoError(t, rt.Close(t.Context()))
		assert.ErrorIs(t, come(t, "the end of the wait", result), holdfast.ErrClosed)
		assert.Equal(t, []string{p.Name}, p.KeysLike(t, "*"+p.Name+"*"))
	})
}
