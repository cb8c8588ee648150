package holdfast_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

var errOfFn = errors.New("fn failed")

func TestLock_DoHoldsTheLockWhileFnRuns(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt, other := p.runtime(t, holdfast.Options{}), p.runtime(t, holdfast.Options{})
		err := p.lock(rt).Do(t.Context(), func(ctx context.Context) error {
			assert.NoError(t, ctx.Err())
			assertTaken(t, p, rt, other)
			return nil
		})
		assert.NoError(t, err)
		assert.False(t, p.exists(t))
	})
}

func TestLock_DoReturnsTheErrorOfFn(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		var inner context.Context
		err := p.lock(p.runtime(t, holdfast.Options{})).Do(t.Context(), func(ctx context.Context) error {
			inner = ctx
			return errOfFn
		})
		assert.ErrorIs(t, err, errOfFn)
		assert.NotErrorIs(t, err, holdfast.ErrLeaseLost)
		assert.ErrorIs(t, inner.Err(), context.Canceled, "fn's context ends with Do")
		assert.False(t, p.exists(t))
	})
}

func TestLock_DoReleasesAfterAPanic(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt := p.runtime(t, holdfast.Options{})
		assert.PanicsWithValue(t, "oops", func() {
			_ = p.lock(rt).Do(t.Context(), func(context.Context) error { panic("oops") })
		})
		assert.False(t, p.exists(t))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = p.lock(rt).Do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
		}()
		closed(t, "the goroutine", ended)
		assert.False(t, p.exists(t), "also when fn ends its goroutine")
	})
}

func TestLock_DoEndsItsContextWithTheLease(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt := p.runtime(t, holdfast.Options{})
		err := p.lock(rt).Do(t.Context(), func(ctx context.Context) error {
			held, err := p.lock(rt).ForceRelease(ctx)
			require.NoError(t, err)
			require.True(t, held)
			closed(t, "the context", ctx.Done())
			assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLeaseLost)
			assert.ErrorIs(t, ctx.Err(), context.Canceled)
			return errOfFn
		})
		assert.ErrorIs(t, err, errOfFn)
		assert.ErrorIs(t, err, holdfast.ErrLeaseLost, "joined")

		err = p.lock(rt).Do(t.Context(), func(ctx context.Context) error {
			closed(t, "the context", ctx.Done())
			return nil
		}, holdfast.WithLease(60*time.Millisecond))
		assert.ErrorIs(t, err, holdfast.ErrLeaseLost, "also when fn does not mind")
	})
}

func TestLock_DoEndsItsContextWithTheCallers(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := p.lock(p.runtime(t, holdfast.Options{})).Do(ctx, func(ctx context.Context) error {
			cancel(errOfFn)
			closed(t, "the context", ctx.Done())
			return context.Cause(ctx)
		})
		assert.ErrorIs(t, err, errOfFn)
		assert.NotErrorIs(t, err, holdfast.ErrLeaseLost)
		assert.False(t, p.exists(t), "the release works with the ended context")
	})
}

func TestLock_DoDoesNotCallFnWithoutTheLock(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt := p.runtime(t, holdfast.Options{})
		lease := acquire(t, p.lock(rt))
		never := func(context.Context) error { assert.Fail(t, "called"); return nil }
		assert.ErrorIs(t, p.lock(rt).Do(t.Context(), never, holdfast.WithWait(time.Millisecond)), holdfast.ErrNotAcquired)
		assert.ErrorIs(t, p.lock(rt).Do(t.Context(), never, holdfast.WithLease(-1)), holdfast.ErrInvalid)
		release(t, lease)
	})
}

func TestLock_DoEndsWithTheRuntime(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt := p.runtime(t, holdfast.Options{})
		err := p.lock(rt).Do(t.Context(), func(ctx context.Context) error {
			assert.NoError(t, rt.Close(t.Context()))
			closed(t, "the context", ctx.Done())
			return context.Cause(ctx)
		})
		assert.ErrorIs(t, err, holdfast.ErrClosed)
	})
}

func TestLease_ContextEndsWithLeaseOrParent(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		lease := acquire(t, p.lock(p.runtime(t, holdfast.Options{})))
		parent, end := context.WithCancelCause(t.Context())
		withParent, cancel := lease.Context(parent)
		defer cancel()
		withLease, cancel := lease.Context(t.Context())
		defer cancel()
		cancelled, cancel := lease.Context(t.Context())

		cancel()
		assert.ErrorIs(t, context.Cause(cancelled), context.Canceled)
		end(errOfFn)
		closed(t, "the context of the parent", withParent.Done())
		assert.ErrorIs(t, context.Cause(withParent), errOfFn)
		assert.NoError(t, withLease.Err())
		release(t, lease)
		closed(t, "the context of the lease", withLease.Done())
		assert.ErrorIs(t, context.Cause(withLease), holdfast.ErrNotHeld)
		late, cancel := lease.Context(t.Context())
		defer cancel()
		assert.ErrorIs(t, context.Cause(late), holdfast.ErrNotHeld, "one made afterwards has ended")
	})
}

// A lease may be held for months, and each piece of work under it have a context of its own.
func TestLease_ContextThatWasCancelledIsNotKept(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		lease := acquire(t, p.lock(p.runtime(t, holdfast.Options{})))
		collected := make(chan struct{})
		func() {
			type key struct{}
			value := new([64]byte)
			runtime.AddCleanup(value, func(collected chan struct{}) { close(collected) }, collected)
			_, cancel := lease.Context(context.WithValue(context.Background(), key{}, value))
			cancel()
		}()
		require.Eventually(t, func() bool {
			runtime.GC()
			select {
			case <-collected:
				return true
			default:
				return false
			}
		}, patience, 100*time.Millisecond, "the lease keeps what the context has")
		release(t, lease)
	})
}
