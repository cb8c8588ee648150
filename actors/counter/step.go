package counter

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// State is everything that the actor of a counter knows. As with most locks, each process competes only once per name: at most one call at a time
// asks for permits, on behalf of the waiters, and at most one call at a time returns permits, on behalf of all callers.
//
// Permits have no owner, so Redis does not show whether a request was executed. Each request therefore has an id, and Redis keeps the request's
// result under this id for a while. A request whose outcome is unknown is repeated under the same id.
//
// If every result stayed in Redis until its TTL expired, a busy semaphore would have millions of results there. So when no copy of an answered
// request can arrive any more, the next call that changes something deletes the request's result. This costs one DEL within the script. When the
// counter has not been used for a while, an extra call deletes the last results (forgetAfter). After a lost reply, a duplicate of the request may
// still arrive; in that case the result stays until its TTL expires.
//
// These invariants hold between any two steps:
//
//   - Every permit that Redis may have given to this process was handed to a waiter, or is recorded in `owed`, in `pending`, in a task or in the
//     attempt. A permit without a record would never be returned. If a permit is lost nevertheless, an event (Unconfirmed) reports the loss.
//   - A request whose outcome is unknown is repeated under its id, or undone. A new id would take or return its permits a second time.
//   - No copy of a request is executed at a time when Redis may have deleted the request's result (copies.limit). Redis would take the copy for a new
//     request.
type State struct {
	wait.Base

	arrivals int64   // how many requests have waited for a latch so far; the newest of them has this value as its Number
	attempt  attempt // the request to Redis on behalf of the waiters
	blocked  bool    // the oldest waiter has been refused, so a new try is refused without a call
	left     int64   // the counter's value in the last reply
	notSet   bool    // the counter was never set, so there are no permits
	owed     int64   // permits that were acquired and not given to a waiter yet
	want     want

	retryAt      time.Duration // no attempt before this instant
	wokenFor     time.Duration // when to try again after a wake-up that came while an attempt was in flight, or clock.Never if none came
	failures     wait.Failures
	subscription wait.Subscription

	pending  pending // the permits to return next
	giving   *task   // the return in flight
	tasks    []*task
	answered []string      // requests whose results Redis need not keep
	quietAt  time.Duration // since when nothing is left to do except to delete the results in `answered`, or clock.Never
}

// answeredMax is the maximum number of results that wait to be deleted. Redis keeps any further results until their TTL expires.
const answeredMax = 32

// forgetAfter is the time without use after which an extra call deletes the results of a counter's earlier calls.
const forgetAfter = 250 * time.Millisecond

// New makes the machine of a counter. It has no requests yet.
func New(policy *wait.Policy, address *lease.Address) *State {
	return &State{Base: wait.NewBase(policy, address), quietAt: clock.Never}
}

// Held reports no lease: a counter has none.
func (s *State) Held() ([]*lease.Hold, int) { return nil, s.Queue.Len }

// Step handles one message and returns the effects, which then belong to the caller.
func (s *State) Step(now time.Duration, message any) []wait.Effect {
	s.receive(now, message)
	s.advance(now)
	s.setAlarm()
	return s.TakeEffects()
}

// receive records what a message changes in the state. Afterwards, the method advance makes the calls to Redis that have become necessary.
func (s *State) receive(now time.Duration, message any) {
	switch m := message.(type) {
	case *wait.Request:
		s.onRequest(now, m)
	case *countDone:
		s.onDone(now, m)
	case wait.CancelRequest:
		s.onCancel(now, m)
	case wait.ChannelReady:
		if s.subscription.Watch != wait.Unwatched && m.Channel == s.subscription.Channel {
			s.subscription.Confirm()
			s.wake(now + s.Policy.Spread(m.Among)) // after a reconnection every waiter of the process tries again
		}
	case wait.ChannelMessage:
		s.wake(now)
	case wait.Alarm:
		s.AlarmAt = clock.Never
	case wait.Close:
		s.onClose(m.Stage)
	}
}

// onRequest chooses how a request is served. A request that takes permits, or waits for a latch to reach zero, is queued. The permits of a request
// that returns permits are added to `pending`. Any other request becomes a task of its own. While the runtime drains, permits can still be returned,
// but not acquired.
func (s *State) onRequest(now time.Duration, r *wait.Request) {
	if s.Stage >= wait.Closing || s.Stage >= wait.Draining && r.Count.Enters() {
		s.Fail(r, protocol.ErrClosed)
		return
	}
	switch r.Count.Way {
	case scripts.Take, scripts.Look:
		s.onWait(now, r)
	case scripts.Give:
		s.pending.add(r.Count, r.Number, r)
	case scripts.Ask:
		s.run(&task{op: r.Count, requests: []*wait.Request{r}, patience: s.Policy.Patience}, scripts.CountTerms{Numbers: []int64{r.Number}})
	}
}

// onDone takes the result of a call. Only the result of the call in flight counts. Earlier calls were disregarded, and their requests were repeated
// or undone.
func (s *State) onDone(now time.Duration, m *countDone) {
	c := m.call.copies
	if c.call != m.call {
		return // abandoned meanwhile
	}
	c.call = nil
	if m.class == scripts.Unknown {
		c.duplicateUntil = max(c.duplicateUntil, m.call.Deadline)
		s.noteUnknown(now, m.call)
	}
	if m.call.task != nil {
		s.onTaskDone(now, m.call.task, m)
	} else {
		s.onAttemptDone(now, m)
	}
}

// advance does whatever is due at this instant. Handlers only note messages and results; advance decides about the next call to Redis.
//
// Attempts come first, because dropping an attempt that is not wanted any more can create tasks: permits may have to be returned, and a reservation
// may have to be ended. In this order, those tasks are sent in the same step.
func (s *State) advance(now time.Duration) {
	s.advanceAttempt(now)
	s.advanceReservation(now)
	s.advanceGiving()
	for _, e := range s.tasks {
		if e.call == nil && now >= e.retryAt {
			s.send(now, e.op, e.terms, &e.copies, e)
		}
	}
	s.reportSlow(now)
	if s.subscription.Unneeded(&s.Base, now) {
		s.subscription.End(&s.Base)
	}
	s.advanceAnswered(now)
}

// advanceAnswered deletes the results that Redis need not keep, after the counter has not been used for some time. Until then, other calls delete
// them. A deletion that fails is not repeated, because the results have a TTL.
func (s *State) advanceAnswered(now time.Duration) {
	if len(s.answered) == 0 || !s.quiet() {
		s.quietAt = clock.Never
		return
	}
	s.quietAt = min(s.quietAt, now)
	if s.Stage < wait.Draining && now < s.quietAt+forgetAfter {
		return
	}
	s.quietAt = clock.Never
	e := &task{op: scripts.Forget, once: true}
	s.run(e, scripts.CountTerms{})
	s.send(now, e.op, e.terms, &e.copies, e)
}

// quiet reports whether nothing is left to do, except perhaps to delete results.
func (s *State) quiet() bool {
	return s.Queue.Len == 0 && s.attempt.request == "" && len(s.tasks) == 0 && s.pending.number == 0 && s.subscription.Watch == wait.Unwatched
}

func (s *State) Idle() bool { return s.quiet() && len(s.answered) == 0 }

// setAlarm sets the timer to the earliest instant at which advance would have something to do.
func (s *State) setAlarm() {
	at := clock.Never
	if s.Queue.Len > 0 && s.attempt.call == nil {
		at = s.retryAt
	}
	at = min(at, s.Queue.SlowAt(s.Policy.SlowWait))
	for _, e := range s.tasks {
		if e.call == nil {
			at = min(at, e.retryAt)
		}
	}
	at = min(at, s.subscription.UnneededAt(&s.Base))
	if s.quietAt != clock.Never {
		at = min(at, s.quietAt+forgetAfter)
	}
	s.SetAlarm(at)
}

// send emits the first call of a request, or repeats the call. A repeat may differ from the first call only in its reservation and in the ids of the
// results to delete. Two kinds of calls carry such ids: calls that change something, and Forget, which only deletes results.
func (s *State) send(now time.Duration, op *scripts.CountOp, terms scripts.CountTerms, c *copies, e *task) {
	if c.sent == 0 {
		c.sent = max(now, 1)
	}
	if len(c.answered) == 0 && (op.Changes || op == scripts.Forget) {
		c.answered, s.answered = s.answered, nil
	}
	terms.Request, terms.Answered = c.request, c.answered
	if terms.Keep == 0 {
		terms.Keep = s.Policy.Patience + giveFor + 10*time.Second // longer than a request and its undo can take together
	}
	c.call = &countCall{op: op, raw: s.Address.Raw, terms: terms, copies: c, task: e}
	c.call.Timing = s.timing(now, op, e)
	s.Emit(wait.Effect{Do: wait.DoCall, Call: c.call})
}

// timing returns the timing of a call for a task, or for the waiters. Calls that return permits go before other calls, because other processes
// wait for the permits.
func (s *State) timing(now time.Duration, op *scripts.CountOp, e *task) rpc.Timing {
	window := rpc.Window(s.Policy.Lease)
	switch {
	case e == nil:
		return s.failures.Waiting(s.Policy, now, window, s.Queue.Front())
	case e.once:
		return rpc.Hasty(now, window)
	}
	t := e.failures.Patient(now, window, e.patience, 0)
	t.First = t.First || op.Way == scripts.Give
	return t
}

// forgetResult notes that Redis need not keep the result of a request, unless a duplicate of the request may still arrive. The parameter `sent` is
// the instant at which the answered call was sent.
func (s *State) forgetResult(op *scripts.CountOp, c *copies, sent time.Duration) {
	if op.Changes && c.duplicateUntil <= sent && len(s.answered) < answeredMax {
		s.answered = append(s.answered, c.request)
	}
}

// leaveAnswered is called when a request is dropped. The request's calls may not have deleted the results whose ids they carried (c.answered). So
// leaveAnswered puts these ids back into s.answered, and a later call deletes the results. It does no harm if some are gone already.
func (s *State) leaveAnswered(c *copies) {
	left := min(len(c.answered), answeredMax-len(s.answered))
	s.answered, c.answered = append(s.answered, c.answered[:left]...), nil
}

// dropTask removes a task. The result of its call does not count any more.
func (s *State) dropTask(e *task) {
	e.call = nil
	s.tasks = slices.DeleteFunc(s.tasks, func(other *task) bool { return other == e })
	if s.giving == e {
		s.giving = nil
	}
}
