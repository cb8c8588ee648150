package actors

import (
	"fmt"
	"sync"
)

// Ending tells, once and for all, that something held has ended, and why. The zero value has not ended.
type Ending struct {
	mu    sync.Mutex // never held while calling out
	done  chan struct{}
	onEnd map[*func(error)]struct{}
	err   error
	why   string // adds to err
}

// Done is closed at the end.
func (e *Ending) Done() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done == nil {
		e.done = make(chan struct{})
		if e.err != nil {
			close(e.done)
		}
	}
	return e.done
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

// OnEnd has f called once with the reason when the end comes, at once if it has come; f must not block. forget takes that back.
func (e *Ending) OnEnd(f func(error)) (forget func()) {
	e.mu.Lock()
	err := e.err
	if err == nil {
		if e.onEnd == nil {
			e.onEnd = map[*func(error)]struct{}{}
		}
		e.onEnd[&f] = struct{}{}
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
	if e.done != nil {
		close(e.done)
	}
	e.mu.Unlock()
	for f := range onEnd {
		shield(func() { (*f)(err) })
	}
	return true
}

// shield runs what may come upon code of the user, a context of its own making, and lives with its panic.
func shield(f func()) {
	defer func() { _ = recover() }()
	f()
}
