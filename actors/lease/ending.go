package lease

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"
)

// Ending is the end of a lease and its reason. A lease ends only once. The zero value has not ended.
type Ending struct {
	mu    sync.Mutex // not held while functions of the user run
	done  signal
	onEnd map[*func(error)]*audience // the keys are the functions to call; Awaited ignores a function whose value is nil
	err   error
	over  atomic.Bool // err is set; readable without mu
	why   string      // a detail for Reason
}

// audience belongs to a function in onEnd that ends a context. It refers to that context, so that Awaited can find out whether the user still has the
// context.
type audience struct {
	context *Context              // the user's context, or nil if Awaited was called
	weak    weak.Pointer[Context] // the context after a call of Awaited
}

// Context is a context for the user that ends with a lease. It wraps the context that the lease cancels. Only the user and one audience refer to
// the wrapper. So Awaited can find out whether the user still has the wrapper.
type Context struct{ context.Context }

// Done returns a channel that is closed at the end.
func (e *Ending) Done() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	done := e.done.channel()
	if done == nil {
		done = e.done.make()
		if e.err != nil {
			close(done)
		}
	}
	return done
}

// Err returns the reason of the end, or nil if the lease has not ended.
func (e *Ending) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// Reason is Err with a detail.
func (e *Ending) Reason() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.why == "" {
		return e.err
	}
	return fmt.Errorf("%w: %s", e.err, e.why)
}

// Why returns only the detail of the reason, or "" if there is none.
func (e *Ending) Why() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why
}

// Context makes a context for the user. It ends with parent or with the lease. If the lease ends first, the cause of the context is the lease's Err.
// Awaited returns true while the user still has the context or its cancel function.
func (e *Ending) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx := &Context{}
	inner, cancel := e.bound(parent, &audience{context: ctx})
	ctx.Context = inner
	return ctx, func() {
		cancel()
		runtime.KeepAlive(ctx)
	}
}

// Bound makes a context like Context does, but Awaited ignores this context, because the caller also has the lease.
func (e *Ending) Bound(parent context.Context) (context.Context, context.CancelFunc) {
	return e.bound(parent, nil)
}

func (e *Ending) bound(parent context.Context, of *audience) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	forget := e.tell(func(err error) { cancel(err) }, of)
	stop := context.AfterFunc(parent, forget) // otherwise a context whose parent has ended would stay in memory until the lease ends
	return ctx, func() {
		cancel(context.Canceled)
		forget()
		stop()
	}
}

// OnEnd calls f once, with the reason, when the lease ends, or at once if it has ended. f must not block. The returned forget removes f.
func (e *Ending) OnEnd(f func(error)) (forget func()) { return e.tell(f, nil) }

func (e *Ending) tell(f func(error), to *audience) (forget func()) {
	e.mu.Lock()
	err := e.err
	if err == nil {
		if e.onEnd == nil {
			e.onEnd = map[*func(error)]*audience{}
		}
		e.onEnd[&f] = to
	}
	e.mu.Unlock()
	if err != nil {
		f(err)
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.onEnd, &f)
	}
}

// Awaited reports whether the user still has a channel from Done or a context from Context. It is for leases whose handle the user has dropped.
// Awaited makes the lease's references to the channel and the contexts weak, so that the garbage collector can free what the user has dropped. Until
// the collector has done so, Awaited returns true. So the caller has to ask again later.
func (e *Ending) Awaited() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	awaited := e.done.weaken()
	for _, to := range e.onEnd {
		awaited = to.weaken() || awaited
	}
	return awaited
}

// weaken makes the reference weak. It returns false if there is no context or the garbage collector has freed it.
func (a *audience) weaken() bool {
	switch {
	case a == nil:
		return false
	case a.context != nil:
		a.weak, a.context = weak.Make(a.context), nil
		return true
	}
	return a.weak.Value() != nil
}

// End ends the lease. It returns false if the lease had ended before. To end a Hold, call Claim or Lose instead.
func (e *Ending) End(err error, why string) bool {
	e.mu.Lock()
	if e.err != nil {
		e.mu.Unlock()
		return false
	}
	e.err, e.why = err, why
	e.over.Store(true)
	onEnd := e.onEnd
	e.onEnd = nil
	if done := e.done.channel(); done != nil {
		close(done)
	}
	e.mu.Unlock()
	for f := range onEnd {
		CallSafely(func() { (*f)(err) })
	}
	return true
}

// CallSafely calls a function and recovers from a panic in it. The function may run code of the user, such as a method of the user's own type of
// context.
func CallSafely(f func()) {
	defer func() { _ = recover() }()
	f()
}

// signal is a channel that is closed once. The reference to the channel can be made weak, so that the garbage collector frees the channel when
// nothing else refers to it. As long as the channel has not been freed, it can still be closed.
type signal struct {
	strong chan struct{}
	weak   weak.Pointer[byte]
}

// make makes the channel.
func (s *signal) make() chan struct{} {
	s.strong = make(chan struct{})
	return s.strong
}

// channel returns the channel, or nil if there is none or the garbage collector has freed it.
func (s *signal) channel() chan struct{} {
	if s.strong != nil {
		return s.strong
	}
	p := s.weak.Value()
	return *(*chan struct{})(unsafe.Pointer(&p)) // a channel is a pointer
}

// weaken makes the reference weak. It returns false if there is no channel or the garbage collector has freed it.
func (s *signal) weaken() bool {
	if s.strong != nil {
		s.weak, s.strong = weak.Make(*(**byte)(unsafe.Pointer(&s.strong))), nil
		return true
	}
	return s.weak.Value() != nil
}
