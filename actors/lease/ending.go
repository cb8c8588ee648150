package lease

import (
	"context"
	"fmt"
	"sync"
	"weak"
)

// Ending tells, once and for all, that something held has ended, and why. The zero value has not ended.
type Ending struct {
	mu    sync.Mutex // never held while calling out
	done  signal
	onEnd map[*func(error)]*audience
	err   error
	why   string // adds to err
}

// audience is who is told of the end by a function.
type audience struct {
	context *Context              // made for the user; nil: once Awaited has been asked, or there is none
	weak    weak.Pointer[Context] // the same, once Awaited has been asked
}

// Context is a context of the user that ends with what it was made for. Its end comes from the context inside, which does not refer
// to it: so it can be found out whether anybody has it.
type Context struct{ context.Context }

// Done is closed at the end.
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

// Err is nil until the end, then why it came.
func (e *Ending) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// Reason is Err in more words.
func (e *Ending) Reason() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.why == "" {
		return e.err
	}
	return fmt.Errorf("%w: %s", e.err, e.why)
}

// Context makes a context for the user that ends at the end, or with parent. Its cause is then Err.
func (e *Ending) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx := &Context{}
	inner, cancel := e.bound(parent, &audience{context: ctx})
	ctx.Context = inner
	return ctx, cancel
}

// Bound is Context for who has the lease besides.
func (e *Ending) Bound(parent context.Context) (context.Context, context.CancelFunc) {
	return e.bound(parent, nil)
}

func (e *Ending) bound(parent context.Context, of *audience) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	forget := e.tell(func(err error) { cancel(err) }, of)
	stop := context.AfterFunc(parent, forget) // a lease may outlive many contexts
	return ctx, func() {
		cancel(context.Canceled)
		forget()
		stop()
	}
}

// OnEnd has f called once with the reason when the end comes, at once if it has come; f must not block. forget takes that back.
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

// Awaited reports whether the user has a channel of Done or a context of Context. It is for what the user has nothing else of, since
// afterwards the collector takes these, too: it has to be asked again later, when the collector has run.
func (e *Ending) Awaited() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	awaited := e.done.weaken()
	for _, to := range e.onEnd {
		awaited = to.weaken() || awaited
	}
	return awaited
}

// weaken lets the collector have the context; false when it was taken.
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

// End brings the end about; false when it has come before. Who has a Hold does not end it by this, but by its release.
func (e *Ending) End(err error, why string) bool {
	e.mu.Lock()
	if e.err != nil {
		e.mu.Unlock()
		return false
	}
	e.err, e.why = err, why
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

// CallSafely runs what may come upon code of the user, a context of its own making, and lives with its panic.
func CallSafely(f func()) {
	defer func() { _ = recover() }()
	f()
}
