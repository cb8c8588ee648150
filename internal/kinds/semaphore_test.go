package kinds_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// semaphore returns the place's semaphore in a new runtime, with its number of permits set.
func semaphore(t *testing.T, p *locktest.Place, permits int) *holdfast.Semaphore {
	t.Helper()
	s := p.Runtime(t, holdfast.Options{}).Semaphore(p.Name)
	set, err := s.TrySetPermits(t.Context(), permits)
	require.NoError(t, err)
	require.True(t, set)
	return s
}

// available asserts how many permits are free.
func available(t *testing.T, s *holdfast.Semaphore, want int) {
	t.Helper()
	n, err := s.Available(t.Context())
	require.NoError(t, err)
	assert.Equal(t, want, n)
}

// returned waits until `want` permits are free. Permits of acquires that gave up are released in the background, so this may take a while. More than
// `want` must never be free.
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

// acquired acquires permits, which must succeed in time.
func acquired(t *testing.T, s *holdfast.Semaphore, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	require.NoError(t, s.Acquire(ctx, n))
}

// later acquires n permits in the background.
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

// subscribers waits until at least n clients are subscribed to a channel.
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

// everySemaphoreError returns the error of each operation.
func everySemaphoreError(ctx context.Context, s *holdfast.Semaphore, n int) []error {
	_, set := s.TrySetPermits(ctx, n)
	_, drained := s.Drain(ctx)
	_, read := s.Available(ctx)
	_, deleted := s.Delete(ctx)
	return []error{set, s.Acquire(ctx, n), s.TryAcquire(ctx, n), s.Release(ctx, n), s.AddPermits(ctx, n), drained, read, deleted}
}

// A semaphore with one permit is a mutex, across goroutines and processes.
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

// There are math.MaxInt32 permits. Some acquires want one of them, others want all. Every acquire succeeds.
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
