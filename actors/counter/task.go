package counter

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// task is a request that waits for nothing but Redis. It is repeated until its outcome is known or its patience is over. A task that returns permits
// continues even if its callers stop waiting: the callers have given the permits up, so only the task can return them. Several tasks run at the same
// time, but at most one of them is a return (giving).
type task struct {
	copies
	op       *scripts.CountOp
	terms    scripts.CountTerms
	requests []*wait.Request // to be answered
	patience time.Duration
	once     bool // the task is not repeated, because its failure does no harm
	failures wait.Failures
	retryAt  time.Duration
}

// pending has the permits for the next return, which is sent when no other return is in flight. The permits of several requests can be added up,
// because the order of returns does not matter.
type pending struct {
	op       *scripts.CountOp
	number   int64
	requests []*wait.Request
}

func (p *pending) add(op *scripts.CountOp, number int64, r *wait.Request) {
	p.op, p.number = op, p.number+number
	if r != nil {
		p.requests = append(p.requests, r)
	}
}

// run begins a task; advance sends it.
func (s *State) run(e *task, terms scripts.CountTerms) {
	if e.request == "" {
		e.request = s.Policy.NewID()
	}
	e.terms = terms
	s.tasks = append(s.tasks, e)
}

// returnOwed makes the owed permits pending.
func (s *State) returnOwed() {
	if s.owed > 0 {
		s.pending.add(s.Address.Kind.Counting.Give, s.owed, nil)
		s.owed = 0
	}
}

// advanceGiving returns all pending permits in one call.
func (s *State) advanceGiving() {
	s.returnOwed()
	if p := s.pending; s.giving == nil && p.number > 0 {
		e := &task{op: p.op, requests: p.requests, patience: giveFor}
		s.run(e, scripts.CountTerms{Numbers: []int64{p.number}})
		s.giving, s.pending = e, pending{}
	}
}

// giveFor is the time for which an unconfirmed return of permits is repeated.
const giveFor = 30 * time.Second

// undoKeep is the time for which Redis remembers that a request was undone. After that time, no duplicate of the request can be executed any more.
const undoKeep = 10 * time.Second

// undo reverses the effect that an abandoned request may have had. A duplicate of the request that arrives later has no effect, because the script of
// the undo leaves a note under the id of the request.
//
// If no copy of the request can have been executed, there is nothing to reverse.
func (s *State) undo(op *scripts.CountOp, c *copies) {
	s.leaveAnswered(c)
	if c.disregard(); op.Undo == nil || c.duplicateUntil == 0 {
		return
	}
	e := &task{op: op.Undo, copies: copies{request: c.request}, patience: giveFor}
	s.run(e, scripts.CountTerms{Keep: undoKeep})
}

// onTaskDone takes the result of a task's call.
//
//   - Redis answered: the callers get the number in the reply, and the result may be deleted.
//   - Redis refused permanently: the callers get the reason.
//   - Redis may have forgotten the result of an earlier copy (expired): if no copy was executed, the task starts over with a new id. Otherwise its
//     outcome stays unknown.
//   - There is no reply, or the call arrived too late: the call is repeated until the task's patience is over. An Ask also ends when
//     the runtime closes.
//   - A task that is never repeated (task.once) ends, whatever the result is.
func (s *State) onTaskDone(now time.Duration, e *task, m *countDone) {
	_, late := scripts.LateBy(m.err)
	switch {
	case m.class == scripts.Done:
		s.dropTask(e)
		if !e.once {
			s.forgetResult(e.op, &e.copies, m.sent)
		}
		for _, r := range e.requests {
			r.Number = m.counted.Number
			s.Answer(r, nil)
		}
	case e.once:
		s.dropTask(e)
	case m.class == scripts.Rejected:
		s.giveUp(e, scripts.Explain(m.err))
	case m.expired && e.duplicateUntil == 0:
		e.copies = copies{request: s.Policy.NewID(), answered: e.answered} // no copy was executed
		e.retryAt = now
	case m.expired:
		s.giveUp(e, errLostTrack)
	default:
		e.failures.Add(now, &m.call.Call, m.err)
		switch {
		case e.failures.Silent(now, 0) >= e.patience, s.Stage >= wait.Closing && e.op.Way == scripts.Ask:
			s.giveUp(e, e.failures.Last)
		case late && e.failures.Count <= wait.LateMax:
			e.retryAt = now
		default:
			e.retryAt = now + s.Policy.Backoff(e.failures.Count)
		}
	}
}

// giveUp ends a task with an error. Nothing can undo a return of permits, so an event reports that the permits may be missing.
func (s *State) giveUp(e *task, err error) {
	s.dropTask(e)
	s.leaveAnswered(&e.copies)
	for _, r := range e.requests {
		s.Fail(r, s.uncertain(e, err))
	}
	if e.op.Way == scripts.Give {
		s.Emit(wait.Effect{Do: wait.DoEmit, Event: protocol.Unconfirmed{Name: s.Address.Name, Do: e.op.Word, Err: err}})
		return
	}
	s.undo(e.op, &e.copies)
}

// uncertain returns the error of a failed request. If the request may have been executed all the same, uncertain adds a note to the cause.
func (s *State) uncertain(e *task, cause error) error {
	switch {
	case !e.op.Changes || e.duplicateUntil == 0:
		return cause
	case e.op.Undo != nil && s.Stage < wait.Aborting:
		return fmt.Errorf("not confirmed, it will be undone: %w", cause)
	}
	return fmt.Errorf("not confirmed, it may have been done: %w", cause)
}

var errLostTrack = fmt.Errorf("its answer was lost, and Redis does not keep its result any longer")

// loseTrack gives up a request whose outcome cannot be learned any more. If a copy of the request may have been executed, an event reports that.
func (s *State) loseTrack(op *scripts.CountOp, c *copies) {
	if c.duplicateUntil > 0 {
		s.Emit(wait.Effect{Do: wait.DoEmit, Event: protocol.Unconfirmed{Name: s.Address.Name, Do: op.Word, Err: errLostTrack}})
	}
}
