package holdfasttest_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // go-redis logs every connection that is refused
	goleak.VerifyTestMain(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// both runs a test twice: in real time and in a bubble.
func both(t *testing.T, test func(t *testing.T, s *holdfasttest.Server)) {
	t.Run("real time", func(t *testing.T) { test(t, holdfasttest.New(t)) })
	t.Run("bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, holdfasttest.New(t)) })
	})
}

const patience = 20 * time.Second

func TestServer_HeldElsewhere(t *testing.T) {
	both(t, func(t *testing.T, s *holdfasttest.Server) {
		rt := s.Runtime()
		free := s.HeldElsewhere("orders")
		_, err := rt.Lock("orders").TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		_, err = rt.RWLock("orders").Read().TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrForeignKey)
		_, err = rt.PermitSemaphore("orders").TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrForeignKey)
		waiting := rt.FencedLock("orders").AcquireAsync(t.Context())
		free()
		lease, err := waiting.Lease()
		require.NoError(t, err)
		free() // a second call has no effect
		require.NoError(t, lease.Release(t.Context()))

		s.HeldElsewhere("orders") // until the end
		n, err := s.Client().Exists(t.Context(), "orders").Result()
		require.NoError(t, err)
		assert.Equal(t, int64(1), n)
	})
}

func TestServer_Lose(t *testing.T) {
	both(t, func(t *testing.T, s *holdfasttest.Server) {
		rt := s.Runtime(holdfast.Options{Lease: 300 * time.Millisecond})
		err := rt.Lock("orders").Do(t.Context(), func(ctx context.Context) error {
			s.Lose("orders")
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(patience):
				return fmt.Errorf("the loss was not reported")
			}
		})
		assert.ErrorIs(t, err, holdfast.ErrLeaseLost)
	})
}

// Permits are lost in the way that the documentation of Lose describes.
func TestServer_PermitsAreLost(t *testing.T) {
	both(t, func(t *testing.T, s *holdfasttest.Server) {
		jobs := s.Runtime(holdfast.Options{Lease: 300 * time.Millisecond}).PermitSemaphore("jobs")
		_, err := jobs.TrySetPermits(t.Context(), 1)
		require.NoError(t, err)
		err = jobs.Do(t.Context(), func(ctx context.Context) error {
			freed, err := inspect.Free(ctx, s.Client(), "jobs")
			assert.True(t, freed)
			<-ctx.Done()
			return err
		})
		assert.ErrorIs(t, err, holdfast.ErrLeaseLost)
		assert.NoError(t, jobs.TryDo(t.Context(), func(context.Context) error { return nil }), "the permit can be acquired again")
	})
}

func TestServer_CutAndHeal(t *testing.T) {
	both(t, func(t *testing.T, s *holdfasttest.Server) {
		rt, other := s.Runtime(holdfast.Options{Lease: 3 * time.Second}), s.Runtime()
		lease, err := rt.Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		s.Cut(rt)
		<-lease.Done()
		assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
		next, err := other.Lock("orders").Acquire(t.Context())
		require.NoError(t, err, "the other runtime is not cut off")
		s.Heal(rt)
		waiting := rt.Lock("orders").AcquireAsync(t.Context())
		require.NoError(t, next.Release(t.Context()))
		lease, err = waiting.Lease()
		if assert.NoError(t, err) {
			assert.NoError(t, lease.Release(t.Context()))
		}
	})
}

// A runtime that is cut off gets the same errors as one whose Redis is down.
func TestServer_CutRefusesConnections(t *testing.T) {
	both(t, func(t *testing.T, s *holdfasttest.Server) {
		rt := s.Runtime()
		s.Cut(rt)
		_, err := rt.Lock("orders").TryAcquire(t.Context())
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		assert.EqualError(t, err, `holdfast: acquire "orders": dial tcp 127.0.0.1:6379: connect: connection refused`)
		_, err = rt.Lock("orders").Acquire(t.Context(), holdfast.WithWait(100*time.Millisecond))
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		var busy *holdfast.BusyError
		assert.NotErrorAs(t, err, &busy, "nobody holds the lock")
	})
}

func TestServer_Restart(t *testing.T) {
	both(t, func(t *testing.T, s *holdfasttest.Server) {
		rt, off := s.Runtime(holdfast.Options{Lease: 4 * time.Second}), s.Runtime()
		s.Cut(off)
		lease, err := rt.Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		before := lease.ExpiresAt()
		s.Restart(false)
		for end := time.Now().Add(patience); lease.ExpiresAt().Sub(before) < 100*time.Millisecond && time.Now().Before(end); {
			<-time.After(time.Millisecond)
		}
		assert.True(t, lease.Valid(), "renewed: %v", lease.Err())
		require.NoError(t, s.Client().Set(t.Context(), "key", "value", 0).Err())
		s.Restart(true)
		assert.Zero(t, s.Client().Exists(t.Context(), "key", "orders").Val())
		<-lease.Done()
		_, err = off.Lock("orders").TryAcquire(t.Context())
		assert.Error(t, err, "still cut off")
		assert.NotErrorIs(t, err, holdfast.ErrNotAcquired)
	})
}

// recorded is a testing.TB that records how the test fails.
type recorded struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorded) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorded) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorded) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic("the test has failed")
}

func (r *recorded) end() {
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		last()
	}
}

func TestServer_LeaseThatIsLeftFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, options := range [][]holdfast.AcquireOption{nil, {holdfast.WithLease(time.Hour)}} {
			test := &recorded{TB: t}
			rt := holdfasttest.New(test).Runtime()
			forgotten, err := rt.Lock("forgotten").Acquire(t.Context(), options...)
			require.NoError(t, err)
			test.end()
			require.Len(t, test.errors, 1)
			assert.Contains(t, test.errors[0], `still held: "forgotten"`)
			assert.ErrorIs(t, forgotten.Err(), holdfast.ErrClosed)
		}

		test := &recorded{TB: t}
		s := holdfasttest.New(test)
		rt := s.Runtime()
		lease, err := rt.Lock("late").Acquire(t.Context())
		require.NoError(t, err)
		time.AfterFunc(leftAfter/2, func() { _ = lease.Release(context.Background()) })
		s.Cut(s.Runtime())
		test.end()
		assert.Empty(t, test.errors, "a lease that is released soon after the end does not fail the test")
	})
}

// A waiter that still waits when the test ends is refused. It does not get the lock, although the other process releases the lock then.
func TestServer_WaiterThatIsLeftGetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := &recorded{TB: t}
		s := holdfasttest.New(test)
		rt := s.Runtime()
		test.Cleanup(synctest.Wait) // lets waiters that can acquire the lock do so
		s.HeldElsewhere("orders")
		waiting := rt.Lock("orders").AcquireAsync(t.Context())
		test.end()
		_, err := waiting.Lease()
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		assert.Empty(t, test.errors)
	})
}

const leftAfter = 10 * time.Second

func TestServer_Misused(t *testing.T) {
	test := &recorded{TB: t}
	s := holdfasttest.New(test)
	assert.Panics(t, func() { s.Runtime(holdfast.Options{}, holdfast.Options{}) })
	assert.Panics(t, func() { s.Runtime(holdfast.Options{Lease: -1}) })
	assert.Panics(t, func() { s.Cut(holdfasttest.New(t).Runtime()) })
	assert.Len(t, test.errors, 3)
	test.end()
}

// In a bubble, an hour of renewals takes no real time.
func TestServer_TimeIsTheBubbles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t)
		began := time.Now()
		err := s.Runtime().Lock("orders").Do(t.Context(), func(ctx context.Context) error {
			<-time.After(time.Hour)
			return ctx.Err()
		})
		assert.NoError(t, err)
		assert.InDelta(t, time.Hour, time.Since(began), float64(time.Second))
	})
}

// A grant that no replica acknowledges is undone. In a bubble, the runtime is created and requests the grant at the same instant; the grant must be
// undone even then.
func TestServer_NoReplicasInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t)
		_, err := s.Runtime(holdfast.Options{AckReplicas: 1}).Lock("orders").TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotReplicated)
		synctest.Wait()
		assert.NoError(t, s.Runtime().Lock("orders").TryDo(t.Context(), func(context.Context) error { return nil }))
	})
}

// Two processes learn at the same instant of the bubble that a permit is free. The one that does not get the permit waits. If it asked again and
// again, the time of the bubble would stand still.
func TestServer_PermitsMoveOnInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t)
		var all sync.WaitGroup
		began := time.Now()
		for range 3 {
			jobs := s.Runtime().PermitSemaphore("jobs")
			_, err := jobs.TrySetPermits(t.Context(), 1)
			require.NoError(t, err)
			all.Go(func() {
				assert.NoError(t, jobs.Do(t.Context(), func(context.Context) error { <-time.After(time.Minute); return nil }))
			})
		}
		all.Wait()
		assert.InDelta(t, 3*time.Minute, time.Since(began), float64(time.Second))
	})
}

func TestServer_HeldElsewhereTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := &recorded{TB: t}
		s := holdfasttest.New(test)
		s.HeldElsewhere("orders")
		assert.Panics(t, func() { s.HeldElsewhere("orders") })
		test.end()
		require.Len(t, test.errors, 1)
		assert.Contains(t, test.errors[0], `"orders" is held elsewhere already`)
	})
}
