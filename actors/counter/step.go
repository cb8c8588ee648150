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

// State is all that the actor of a counter knows. There is one contender per process and name, as with locks: one call at a time asks for
// those who wait, and one gives back for all who do.
//
// No request of a counter has an owner by whom its effect could be found in Redis. So each has an id, under which Redis keeps its
// result for a while: an unknown outcome is asked for by repeating the request. The results of requests of which every copy was
// answered are deleted by the next call on its way, which costs one DEL inside of a script, or before the actor retires; left to their
// TTL a busy semaphore's would be millions. Only those with a lost answer are left to it, as a copy of the request may still come.
type State struct {
	// fixed at construction
	policy  *wait.Policy
	address *lease.Address

	queue    wait.Queue // who waits, oldest first
	arrivals int64      // numbers those who wait for zero
	attempt  attempt    // what Redis is asked for on their behalf
	blocked  bool       // the oldest has been refused: who comes now is behind it
	left     int64      // what Redis said last
	notSet   bool       // there is nothing to be had before somebody sets it
	owed     int64      // permits that were taken and belong to nobody yet
	want     want

	retryAt  time.Duration // no attempt before this instant
	wokenFor time.Duration // when to try again after a wake-up that came while an attempt was on its way; never: none came
	failures wait.Failures
	watch    wait.Watch
	watchAt  time.Duration // when the channel was last needed

	pending  pending // what is to be given back next
	giving   *task   // what is being given back
	tasks    []*task
	answered []string // requests whose results Redis need not keep
	stage    wait.Stage
	retiring bool

	alarmAt time.Duration // what the shell's timer is set to; never: off
	request *wait.Request // the one at hand: after a panic the shell answers it
	effects []wait.Effect
}

// answeredMax is how many results may wait to be deleted; those beyond it are left to their TTL.
const answeredMax = 32

// New is the machine of a counter that nobody has asked for anything.
func New(policy *wait.Policy, address *lease.Address) *State {
	return &State{policy: policy, address: address, alarmAt: clock.Never}
}

// What the actor message API asks of a machine: its actors have nothing to do with counters.
func (s *State) Start(lease.Ref)                           {}
func (s *State) WaitingOf(lease.Ref, uint64) *wait.Request { return nil }
func (s *State) Requesters() []lease.Ref                   { return nil }
func (s *State) Leased() bool                              { return false }

func (s *State) Room() *[]wait.Effect { return &s.effects }

// Forget takes out a request that was answered by somebody else.
func (s *State) Forget(r *wait.Request) { s.queue.Remove(r) }

func (s *State) channel() string { return s.address.Kind.Channel(s.address.Raw, "") }

func (s *State) Step(now time.Duration, message any) []wait.Effect {
	s.request, _ = message.(*wait.Request)
	s.receive(now, message)
	s.advance(now)
	s.setAlarm()
	return s.takeEffects()
}

// takeEffects leaves none behind: what is found in s.effects after a panic was never carried out.
func (s *State) takeEffects() []wait.Effect {
	effects := s.effects
	s.effects = nil
	return effects
}

func (s *State) receive(now time.Duration, message any) {
	switch m := message.(type) {
	case *wait.Request:
		s.onRequest(now, m)
	case *countDone:
		s.onDone(now, m)
	case wait.CancelRequest:
		s.onCancel(now, m)
	case wait.ChannelReady:
		if s.watch != wait.Unwatched {
			s.watch = wait.Subscribed
			s.wake(now + s.policy.Spread(m.Among)) // after a reconnection every waiter of the process tries again
		}
	case wait.ChannelMessage:
		s.wake(now)
	case wait.Alarm:
		s.alarmAt = clock.Never
	case wait.TryRetire:
		s.retiring = true
	case wait.Close:
		s.onClose(m.Stage)
	}
}

func (s *State) onRequest(now time.Duration, r *wait.Request) {
	if s.stage >= wait.Closing || s.stage >= wait.Draining && r.Count.Enters() {
		s.fail(r, protocol.ErrClosed)
		return
	}
	switch r.Count.Way {
	case scripts.Take, scripts.Look:
		s.onWait(now, r)
	case scripts.Give:
		s.pending.add(r.Count, r.Number, r)
	case scripts.Ask:
		s.run(&task{op: r.Count, requests: []*wait.Request{r}, patience: s.policy.Patience}, scripts.CountTerms{Numbers: []int64{r.Number}})
	}
}

func (s *State) onDone(now time.Duration, m *countDone) {
	c := m.call.copies
	if c.call != m.call {
		return // given up meanwhile
	}
	c.call = nil
	if m.class == scripts.Unknown {
		c.stale = max(c.stale, m.call.Deadline)
		s.noteUnknown(now, m.call)
	}
	if m.call.task != nil {
		s.onTaskDone(now, m.call.task, m)
	} else {
		s.onAttemptDone(now, m)
	}
}

// advance does what the state calls for, until nothing is due at this instant.
func (s *State) advance(now time.Duration) {
	s.advanceAttempt(now)
	s.advanceReservation(now)
	s.advanceGiving()
	for _, e := range s.tasks {
		if e.call == nil && now >= e.retryAt {
			s.send(now, e.op, e.terms, &e.copies, e)
		}
	}
	s.advanceWatch(now)
	s.advanceEnd(now)
}

// advanceWatch drops the channel some time after the last waiter has left.
func (s *State) advanceWatch(now time.Duration) {
	switch {
	case s.watch == wait.Unwatched:
	case s.queue.Len > 0:
		s.watchAt = now
	case s.stage >= wait.Draining || s.retiring || now >= s.watchAt+s.policy.Linger:
		s.watch = wait.Unwatched
		s.emit(wait.Effect{Do: wait.DoUnwatch, Channel: s.channel()})
	}
}

// advanceEnd answers a retire hand-shake, and ends a closing actor that has nothing left.
func (s *State) advanceEnd(now time.Duration) {
	ending := s.retiring || s.stage >= wait.Closing
	if ending && s.Idle() && len(s.answered) > 0 {
		e := &task{op: scripts.Forget, once: true}
		s.run(e, scripts.CountTerms{})
		s.send(now, e.op, e.terms, &e.copies, e)
	}
	switch {
	case ending && s.Idle():
		s.emit(wait.Effect{Do: wait.DoStop})
	case s.retiring:
		s.emit(wait.Effect{Do: wait.DoStay})
	}
	s.retiring = false
}

// Idle reports that nothing would be missed if this actor stopped, but for results that Redis need not keep.
func (s *State) Idle() bool {
	return s.queue.Len == 0 && s.attempt.request == "" && len(s.tasks) == 0 && s.pending.number == 0 && s.watch == wait.Unwatched
}

// setAlarm sets the timer to the earliest instant at which advance would have something to do.
func (s *State) setAlarm() {
	at := clock.Never
	if s.queue.Len > 0 && s.attempt.call == nil {
		at = s.retryAt
	}
	for _, e := range s.tasks {
		if e.call == nil {
			at = min(at, e.retryAt)
		}
	}
	if s.watch != wait.Unwatched && s.queue.Len == 0 {
		at = min(at, s.watchAt+s.policy.Linger)
	}
	if at != s.alarmAt {
		s.alarmAt = at
		s.emit(wait.Effect{Do: wait.DoAlarm, At: at})
	}
}

// send asks the shell for a call: the first one of a request, or a repeat.
func (s *State) send(now time.Duration, op *scripts.CountOp, terms scripts.CountTerms, c *copies, e *task) {
	if c.sent == 0 {
		c.sent = max(now, 1)
	}
	if len(c.answered) == 0 && (op.Changes || op == scripts.Forget) {
		c.answered, s.answered = s.answered, nil
	}
	terms.Request, terms.Answered = c.request, c.answered
	if terms.Keep == 0 {
		terms.Keep = s.policy.Keep
	}
	c.call = &countCall{op: op, raw: s.address.Raw, terms: terms, copies: c, task: e}
	c.call.Timing = s.timing(now, op, e)
	s.emit(wait.Effect{Do: wait.DoCall, Call: c.call})
}

// timing is that of a call for a task, or for those who wait.
func (s *State) timing(now time.Duration, op *scripts.CountOp, e *task) rpc.Timing {
	window := rpc.Window(s.policy.Lease)
	switch {
	case e == nil:
		return s.failures.Waiting(s.policy, now, window, s.queue.Front())
	case e.once:
		return rpc.Hasty(now, window)
	}
	t := e.failures.Patient(now, window, e.patience, e.failures.Silent(now))
	t.First = t.First || op.Way == scripts.Give
	return t
}

// forgetResult notes that Redis need not keep the result of a request whose answer was sent for at this instant, unless a copy of the
// request may still come.
func (s *State) forgetResult(op *scripts.CountOp, c *copies, sent time.Duration) {
	if op.Changes && c.stale <= sent && len(s.answered) < answeredMax {
		s.answered = append(s.answered, c.request)
	}
}

func (s *State) emit(e wait.Effect) { s.effects = append(s.effects, e) }

// fail answers that a request failed.
func (s *State) fail(r *wait.Request, cause error) { s.answer(r, r.Because(cause)) }

func (s *State) answer(r *wait.Request, err error) {
	r.Err = err
	s.emit(wait.Effect{Do: wait.DoAnswer, Request: r})
}

// dropTask takes one off the list. What its call comes to does not count any more.
func (s *State) dropTask(e *task) {
	e.call = nil
	s.tasks = slices.DeleteFunc(s.tasks, func(other *task) bool { return other == e })
	if s.giving == e {
		s.giving = nil
	}
}
