package promises_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

var errOfFn = errors.New("fn failed")

func TestLock_DoHoldsTheLockWhileFnRuns(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		err := p.Lock(rt).Do(t.Context(), func(ctx context.Context) error {
			assert.NoError(t, ctx.Err())
			locktest.AssertTaken(t, p, rt, other)
			return nil
		})
		assert.NoError(t, err)
		assert.False(t, p.Exists(t))
	})
}

// fn's context carries the owner, so any goroutine that acquires the same lock with this context re-enters: such goroutines do not exclude each
// other. Work that must be exclusive needs an owner of its own.
func TestLock_DoGoroutinesOfFnShareTheLock(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		err := p.Lock(rt).Do(t.Context(), func(ctx context.Context) error {
			var group sync.WaitGroup
			met := make(chan struct{})
			for i := range 2 {
				group.Go(func() {
					assert.NoError(t, p.Lock(rt).Do(ctx, func(ctx context.Context) error {
						if i == 0 {
							<-met
						} else {
							close(met)
						}
						return nil
					}))
				})
			}
			group.Wait()
			_, err := p.Lock(rt).TryAcquire(ctx, holdfast.WithOwner(rt.NewOwner()))
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired, "an owner of its own")
			_, err = p.Lock(rt).TryAcquire(context.WithoutCancel(t.Context()))
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired, "no owner at all")
			return nil
		})
		assert.NoError(t, err)
	})
}

func TestLock_DoReturnsTheErrorOfFn(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		var inner context.Context
		err := p.Lock(p.Runtime(t, holdfast.Options{})).Do(t.Context(), func(ctx context.Context) error {
			inner = ctx
			return errOfFn
		})
		assert.ErrorIs(t, err, errOfFn)
		assert.NotErrorIs(t, err, holdfast.ErrLeaseLost)
		assert.ErrorIs(t, inner.Err(), context.Canceled, "fn's context ends with Do")
		assert.False(t, p.Exists(t))
	})
}

func TestLock_DoReleasesAfterAPanic(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		assert.PanicsWithValue(t, "oops", func() {
			_ = p.Lock(rt).Do(t.Context(), func(context.Context) error { panic("oops") })
		})
		assert.False(t, p.Exists(t))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = p.Lock(rt).Do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
		}()
		locktest.Closed(t, "the goroutine", ended)
		assert.False(t, p.Exists(t), "also when fn ends its goroutine")
	})
}

func TestLock_DoEndsItsContextWithTheLease(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		err := p.Lock(rt).Do(t.Context(), func(ctx context.Context) error {
			held, err := p.Lock(rt).ForceRelease(ctx)
			require.NoError(t, err)
			require.True(t, held)
			locktest.Closed(t, "the context", ctx.Done())
			assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLeaseLost)
			assert.ErrorIs(t, ctx.Err(), context.Canceled)
			return errOfFn
		})
		assert.ErrorIs(t, err, errOfFn)
		assert.ErrorIs(t, err, holdfast.ErrLeaseLost, "joined")

		err = p.Lock(rt).Do(t.Context(), func(ctx context.Context) error {
			locktest.Closed(t, "the context", ctx.Done())
			return nil
		}, holdfast.WithLease(300*time.Millisecond))
		assert.ErrorIs(t, err, holdfast.ErrLeaseLost, "even if fn ignores its context")
	})
}

func TestLock_DoEndsItsContextWithTheCallers(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := p.Lock(p.Runtime(t, holdfast.Options{})).Do(ctx, func(ctx context.Context) error {
			cancel(errOfFn)
			locktest.Closed(t, "the context", ctx.Done())
			return context.Cause(ctx)
		})
		assert.ErrorIs(t, err, errOfFn)
		assert.NotErrorIs(t, err, holdfast.ErrLeaseLost)
		assert.False(t, p.Exists(t), "the release works with the ended context")
	})
}

func TestLock_DoDoesNotCallFnWithoutTheLock(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		lease := locktest.Acquire(t, p.Lock(rt))
		never := func(context.Context) error { assert.Fail(t, "called"); return nil }
		assert.ErrorIs(t, p.Lock(rt).Do(t.Context(), never, holdfast.WithWait(time.Millisecond)), holdfast.ErrNotAcquired)
		assert.ErrorIs(t, p.Lock(rt).Do(t.Context(), never, holdfast.WithLease(-1)), holdfast.ErrInvalid)
		locktest.Release(t, lease)
	})
}

func TestLock_TryDoMakesOneAttempt(t *testing.T) {
	t.Parallel()
	never := func(context.Context) error { assert.Fail(t, "called"); return nil }
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		lock, free := p.Lock(other), p.Another(t).Lock(other)
		err := p.Lock(rt).TryDo(t.Context(), func(ctx context.Context) error {
			assert.NotNil(t, holdfast.LeaseFromContext(ctx))
			locktest.AssertTaken(t, p, rt, other)
			assert.ErrorIs(t, lock.TryDo(t.Context(), never), holdfast.ErrNotAcquired)
			err := holdfast.Multi(lock, free).TryDo(t.Context(), never)
			var busy *holdfast.BusyError
			if assert.ErrorAs(t, err, &busy) {
				assert.Equal(t, p.Name, busy.Name)
			}
			assert.ErrorIs(t, p.Lock(rt).TryDo(ctx, func(context.Context) error { return errOfFn }), errOfFn, "a nested TryDo re-enters")
			return nil
		})
		require.NoError(t, err)
		assert.ErrorIs(t, holdfast.Multi(lock, free).TryDo(t.Context(), func(ctx context.Context) error {
			assert.Len(t, holdfast.LeaseFromContext(ctx).Members(), 2)
			return errOfFn
		}), errOfFn)
		for _, wrong := range []error{
			lock.TryDo(t.Context(), nil), lock.TryDo(t.Context(), never, holdfast.WithWait(time.Second)),
			holdfast.Multi(lock, free).TryDo(t.Context(), nil), holdfast.Multi(lock, free).TryDo(t.Context(), never, holdfast.WithWait(time.Second)),
		} {
			assert.ErrorIs(t, wrong, holdfast.ErrInvalid)
		}
		assert.False(t, p.Exists(t))
	})
}

func TestLock_DoEndsWithTheRuntime(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		err := p.Lock(rt).Do(t.Context(), func(ctx context.Context) error {
			assert.NoError(t, rt.Close(t.Context()))
			locktest.Closed(t, "the context", ctx.Done())
			return nil
		})
		require.ErrorIs(t, err, holdfast.ErrClosed, "even if fn ignores its context")

		rt = p.Runtime(t, holdfast.Options{})
		closed := make(chan error, 1)
		err = p.Lock(rt).Do(t.Context(), func(ctx context.Context) error {
			go func() { closed <- rt.Close(context.Background()) }()
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrClosed)
			return errOfFn
		})
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		assert.ErrorIs(t, err, errOfFn, "joined")
		assert.NoError(t, <-closed)

		rt = p.Runtime(t, holdfast.Options{})
		err = holdfast.Multi(p.Lock(rt), p.Another(t).Lock(rt)).Do(t.Context(), func(context.Context) error {
			return rt.Close(t.Context())
		})
		assert.ErrorIs(t, err, holdfast.ErrClosed, "of a multi lock")
	})
}

func TestLease_IsFoundInTheContextOfDo(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		assert.Nil(t, holdfast.LeaseFromContext(t.Context()))
		inner := p.Another(t)
		err := p.Lock(rt).Do(t.Context(), func(ctx context.Context) error {
			lease := holdfast.LeaseFromContext(ctx)
			require.NotNil(t, lease)
			assert.Equal(t, p.Name, lease.Name())
			assert.Equal(t, p.Kind.Fenced, lease.Token() > 0)
			assert.True(t, lease.Valid())
			derived, cancel := context.WithTimeout(holdfast.ContextWithOwner(ctx, rt.NewOwner()), time.Minute)
			defer cancel()
			assert.Same(t, lease, holdfast.LeaseFromContext(derived))
			both := holdfast.Multi(inner.Lock(rt), p.Another(t).Lock(rt))
			err := both.Do(ctx, func(ctx context.Context) error {
				assert.Equal(t, 2, len(strings.Split(holdfast.LeaseFromContext(ctx).ID(), ",")), "the lease of both locks")
				return nil
			})
			assert.Same(t, lease, holdfast.LeaseFromContext(ctx))
			own, cancel := lease.Context(t.Context())
			defer cancel()
			assert.Nil(t, holdfast.LeaseFromContext(own), "Do did not make this context")
			return err
		})
		assert.NoError(t, err)
	})
}

func TestLease_ContextEndsWithLeaseOrParent(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		lease := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
		parent, end := context.WithCancelCause(t.Context())
		withParent, cancel := lease.Context(parent)
		defer cancel()
		withLease, cancel := lease.Context(t.Context())
		defer cancel()
		cancelled, cancel := lease.Context(t.Context())

		cancel()
		assert.ErrorIs(t, context.Cause(cancelled), context.Canceled)
		end(errOfFn)
		locktest.Closed(t, "the context of the parent", withParent.Done())
		assert.ErrorIs(t, context.Cause(withParent), errOfFn)
		assert.NoError(t, withLease.Err())
		locktest.Release(t, lease)
		locktest.Closed(t, "the context of the lease", withLease.Done())
		assert.ErrorIs(t, context.Cause(withLease), holdfast.ErrNotHeld)
		late, cancel := lease.Context(t.Context())
		defer cancel()
		assert.ErrorIs(t, context.Cause(late), holdfast.ErrNotHeld, "a context made afterwards has ended")
	})
}

// A lease does not keep cancelled contexts in memory: it may be held for months, and each piece of work under it may have a context of its own.
func TestLease_ContextThatWasCancelledIsNotKept(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		lease := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
		var value weak.Pointer[[64]byte]
		func() {
			type key struct{}
			has := new([64]byte)
			value = weak.Make(has)
			_, cancel := lease.Context(context.WithValue(context.Background(), key{}, has))
			cancel()
		}()
		for range 10 {
			if runtime.GC(); value.Value() == nil {
				break
			}
		}
		assert.Nil(t, value.Value(), "the lease keeps the context's values in memory")
		locktest.Release(t, lease)
	})
}
