package counter

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// onCancel answers the caller of a request that was cancelled. If the request was to return permits, the runtime still returns them. If a call in
// flight has taken permits for the request, these permits are returned when the reply arrives (onTaken) or when the call is undone.
func (s *State) onCancel(now time.Duration, m wait.CancelRequest) {
	r := m.Request
	head := s.Queue.Front()
	if s.leave(r) {
		s.Answer(r, s.waitError(r, m.Cause))
		if r == head {
			s.wake(now) // the waiters behind the cancelled one may want fewer permits
		}
		return
	}
	if i := slices.Index(s.pending.requests, r); i >= 0 {
		s.pending.requests = slices.Delete(s.pending.requests, i, i+1)
		s.Fail(r, goesOn(m.Cause))
		return
	}
	for _, e := range s.tasks {
		if i := slices.Index(e.requests, r); i >= 0 {
			e.requests = slices.Delete(e.requests, i, i+1)
			s.cancelTask(e, r, m.Cause)
			return
		}
	}
}

// cancelTask answers the caller of a task. A return of permits continues without its caller. Any other operation is undone if it can be, because its
// caller will not learn whether it was executed. If a call in flight may end leases of this process, the task stays until the call has its result:
// the shell tells the holders, and an actor that has stopped or has another name meanwhile could not.
func (s *State) cancelTask(e *task, r *wait.Request, cause error) {
	if e.failures.Last != nil {
		cause = fmt.Errorf("%w: %w", cause, e.failures.Last)
	}
	if e.op.Way == scripts.Give {
		s.Fail(r, goesOn(cause))
		return
	}
	if e.op.Ends && !e.recall() {
		e.duplicateUntil, e.once = max(e.duplicateUntil, e.call.Deadline), true
		s.Fail(r, s.uncertain(e, cause))
		return
	}
	e.disregard()
	s.Fail(r, s.uncertain(e, cause))
	s.undo(e.op, &e.copies)
	s.dropTask(e)
}

// goesOn is the error for a caller that stops waiting before Redis has confirmed the return of its permits.
func goesOn(cause error) error {
	return fmt.Errorf("not confirmed yet, the runtime goes on trying: %w", cause)
}

// onClose refuses the waiters and finishes the calls in flight. A closing actor stops when nothing is left to do. An aborting actor stops at
// once, and reports permits that it may have taken, or whose return was not confirmed.
func (s *State) onClose(to wait.Stage) {
	s.Stage = max(s.Stage, to)
	s.RefuseAll(protocol.ErrClosed)
	if to < wait.Aborting {
		return
	}
	for _, e := range s.tasks {
		e.disregard()
		for _, r := range e.requests {
			s.Fail(r, s.uncertain(e, protocol.ErrClosed))
		}
		if e.op.Way == scripts.Give || e.op.Undo != nil && e.duplicateUntil > 0 {
			s.Emit(s.unconfirmed(e.op))
		}
	}
	if a := &s.attempt; a.request != "" && a.op.Changes {
		if a.disregard(); a.duplicateUntil > 0 { // the attempt may have taken permits
			s.Emit(s.unconfirmed(a.op))
		}
	}
	if s.returnOwed(); s.pending.number > 0 { // an event reports these permits, because callers that have stopped waiting get no error
		s.Emit(s.unconfirmed(s.pending.op))
	}
	for _, r := range s.pending.requests {
		s.Fail(r, protocol.ErrClosed)
	}
	s.attempt, s.tasks, s.giving, s.pending, s.answered, s.want = attempt{}, nil, nil, pending{}, nil, want{}
}

// unconfirmed returns the event for an operation whose outcome is unknown, and which nobody repeats or undoes any more.
func (s *State) unconfirmed(op *scripts.CountOp) wait.Effect {
	return wait.Effect{Do: wait.DoEmit, Event: protocol.Unconfirmed{Name: s.Address.Name, Do: op.Word, Err: protocol.ErrClosed}}
}

// Distrust starts over after a panic. The state may be wrong, even about which calls were sent. So all calls are sent again, except those of tasks
// that are never repeated (task.once). A repeat under the same id has no second effect. Effects emitted before the panic are carried out. The only
// exception is the answer to r, which the caller of Distrust gives. If r is nil, there is no such answer.
func (s *State) Distrust(now time.Duration, r *wait.Request) []wait.Effect {
	s.disown(r)
	s.retryAt = now + s.Policy.Backoff(3)
	if s.attempt.request != "" {
		s.attempt.disregard()
	}
	s.tasks = slices.DeleteFunc(s.tasks, func(e *task) bool { return e.once })
	for _, e := range s.tasks {
		e.disregard()
		e.retryAt = s.retryAt
	}
	s.AlarmAt = s.retryAt // the next step does what the panic has prevented
	s.Emit(wait.Effect{Do: wait.DoAlarm, At: s.AlarmAt})
	return s.TakeEffects()
}

// disown drops a request that the caller of Distrust answers. If the request had a task of its own (Ask), the task is undone.
func (s *State) disown(r *wait.Request) {
	if r == nil {
		return
	}
	same := func(other *wait.Request) bool { return other == r }
	s.Unanswer(r)
	s.leave(r)
	s.pending.requests = slices.DeleteFunc(s.pending.requests, same)
	for _, e := range slices.Clone(s.tasks) {
		had := len(e.requests)
		e.requests = slices.DeleteFunc(e.requests, same)
		if e.op.Way == scripts.Ask && len(e.requests) < had { // the task has no other request, so nobody wants its result
			s.undo(e.op, &e.copies)
			s.dropTask(e)
		}
	}
}
