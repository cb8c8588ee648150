package counter

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// attempt is a request to Redis on behalf of the waiters. One call asks for the permits of several waiters, in the order of the queue, and the script
// serves as many of the waiters as it can.
type attempt struct {
	copies
	op     *scripts.CountOp
	upTo   int64           // of a Look: the number of the last waiter that it can answer
	number []int64         // of a Take: how many permits each waiter wants; negative for a try
	served []*wait.Request // of a Take: its waiters, in order, with nil in the place of a waiter that has left
}

// attemptMax is the maximum number of waiters for which one call asks.
const attemptMax = 100

// onWait queues a waiter, or refuses it at once.
//
// A request that waits for a latch to reach zero needs a look: a call that reads the count. The look must be sent after the request has come. An
// earlier look may have read a zero, and the count may have risen again before the request came. So these requests are numbered, and each look has
// the number of the last request that it can answer.
func (s *State) onWait(now time.Duration, r *wait.Request) {
	switch {
	case r.Try && s.blocked:
		s.Answer(r, s.refusal(r))
		return
	case r.Try && s.Queue.Len >= s.Policy.MaxWaiters: // not wait.TooMany, because a try does not wait
		s.Answer(r, othersWait(r))
		return
	case s.Queue.Len >= s.Policy.MaxWaiters:
		s.Fail(r, wait.TooMany(s.Queue.Len))
		return
	}
	if s.Queue.Len == 0 { // failures and answers of earlier waiters do not count for the new waiter
		s.failures, s.notSet, s.retryAt = wait.Failures{}, false, now
	}
	r.Came = now
	s.Queue.Push(r)
	if r.Count.Way == scripts.Look {
		s.arrivals++
		r.Number = s.arrivals
		s.wake(now) // this waiter needs a look that is sent after it came
	}
}

// wake makes sure that the next attempt is made at the instant `at` or earlier. If an attempt is in flight, wake only notes the instant (wokenFor),
// and the next attempt is made after the reply. A refusal in that reply may be outdated, because permits may have been returned after the script ran.
// If the last attempts have failed and none is in flight, wake changes nothing: the back-off decides when the next attempt is made.
func (s *State) wake(at time.Duration) {
	switch {
	case s.attempt.call != nil:
		s.wokenFor = min(s.wokenFor, at)
	case s.failures.Count == 0:
		s.retryAt = min(s.retryAt, at)
	}
}

// advanceAttempt makes attempts. An attempt whose outcome is unknown is repeated for its waiters until the outcome is known. If the first copy took
// permits, Redis answers the repeat with the first copy's result. The attempt is undone when none of its waiters is left.
func (s *State) advanceAttempt(now time.Duration) {
	a := &s.attempt
	s.noteHead(now)
	if a.request != "" && !s.wants(a) && a.recall() {
		s.undo(a.op, &a.copies)
		*a = attempt{}
	}
	if s.Queue.Len == 0 {
		s.blocked = false
		return
	}
	if a.call == nil && now >= s.retryAt {
		s.ask(now)
	}
}

// wants reports whether a waiter needs the outcome of the attempt. A Look serves every waiter.
func (s *State) wants(a *attempt) bool {
	if a.op.Way == scripts.Look {
		return s.Queue.Len > 0
	}
	for _, r := range a.served {
		if r != nil {
			return true
		}
	}
	return false
}

// ask sends an attempt for the oldest waiters, or repeats the last attempt. A repeat asks for the same permits.
func (s *State) ask(now time.Duration) {
	a := &s.attempt
	if a.request == "" {
		*a = attempt{copies: copies{request: s.Policy.NewID()}, op: s.Queue.Front().Count, upTo: s.arrivals}
		if a.op.Way == scripts.Take {
			s.invite()
		}
	}
	s.wokenFor = clock.Never
	for _, r := range a.served {
		if r != nil {
			r.Attempts++
		}
	}
	terms := scripts.CountTerms{Numbers: a.number}
	terms.Reserve, terms.Rest = s.reservation(now)
	s.send(now, a.op, terms, &a.copies, nil)
}

// invite adds the oldest waiters to the attempt.
func (s *State) invite() {
	a := &s.attempt
	for r := s.Queue.Front(); r != nil && len(a.served) < attemptMax; r = r.Next {
		number := r.Number
		if r.Try {
			number = -number
		}
		a.served, a.number = append(a.served, r), append(a.number, number)
	}
}

// reportSlow reports the waiters that have waited for SlowWait.
func (s *State) reportSlow(now time.Duration) {
	for r, ahead := s.Queue.NextSlow(now, s.Policy.SlowWait); r != nil; r, ahead = s.Queue.NextSlow(now, s.Policy.SlowWait) {
		s.Emit(wait.Effect{Do: wait.DoReport, Request: r, Waiting: &protocol.Waiting{
			Kind: r.Address.Kind.Name, Name: r.Address.Name, Waited: now - r.Came, Ahead: ahead,
		}})
	}
}

// onAttemptDone takes the result of an attempt.
func (s *State) onAttemptDone(now time.Duration, m *countDone) {
	switch {
	case m.class != scripts.Done:
		s.onAttemptFailed(now, m)
	case m.call.op.Way == scripts.Look:
		s.onLooked(now, m)
	default:
		s.onTaken(now, m)
	}
}

// onTaken gives the acquired permits to the waiters.
//
// At first all permits of the reply count as owed. Then each waiter that is still there takes its permits, and the remaining permits are returned.
//
// If the attempt took nothing, but a delayed copy of it may still run, the attempt is not over: it is repeated under the same id. If a new attempt
// replaced it, the delayed copy could take permits that nobody waits for.
func (s *State) onTaken(now time.Duration, m *countDone) {
	a := s.attempt
	taken := false
	for i, served := range m.counted.Served {
		if served {
			s.owed += max(a.number[i], -a.number[i])
			taken = true
		}
	}
	if taken || a.duplicateUntil <= m.sent {
		s.attempt = attempt{} // otherwise the same request is repeated
	}
	if taken {
		s.forgetResult(a.op, &a.copies, m.sent)
	}
	s.noteReservation(now, m)
	before := s.blocked
	s.failures, s.left, s.notSet, s.blocked = wait.Failures{}, m.counted.Number, m.counted.NotSet, false
	for i, r := range a.served {
		switch {
		case r == nil:
		case m.counted.Served[i]:
			s.owed -= r.Number
			s.Queue.Remove(r)
			s.Answer(r, nil)
		case r.Try:
			a.served[i] = nil
			s.Queue.Remove(r)
			s.Answer(r, s.refusal(r))
		default:
			s.blocked = true
		}
	}
	if s.blocked && !before {
		s.refuseTries()
	}
	s.waitOn(now)
}

// refuseTries refuses the tries in the queue, because a try does not wait. When these tries came, nobody knew that the waiters ahead of them would
// have to wait.
func (s *State) refuseTries() {
	for r := s.Queue.Front(); r != nil; {
		next := r.Next
		if r.Try {
			s.leave(r)
			s.Answer(r, s.refusal(r))
		}
		r = next
	}
}

// onLooked takes the result of a look. If the latch is at zero, it answers the waiters that had arrived when the look was sent. Later waiters need
// another look.
func (s *State) onLooked(now time.Duration, m *countDone) {
	upTo := s.attempt.upTo
	s.attempt, s.failures, s.left, s.blocked = attempt{}, wait.Failures{}, m.counted.Number, true
	if s.left <= 0 {
		for r := s.Queue.Front(); r != nil && r.Number <= upTo; r = s.Queue.Front() {
			s.Queue.Remove(r)
			s.Answer(r, nil)
		}
		s.blocked = false
	}
	s.waitOn(now)
}

// waitOn decides when the waiters try again: when a message arrives, or at the latest when a timer ends. If there was no subscription before the
// attempt, they also try again when the new subscription is confirmed.
//
// If nobody was refused, the next waiters try at once. There may be such waiters, because one attempt serves at most attemptMax of them. If a message
// came during the attempt, the refused waiters also try at once, because permits may have been returned after the script ran.
func (s *State) waitOn(now time.Duration) {
	switch {
	case !s.blocked:
		s.retryAt = now
		return
	case s.wokenFor != clock.Never:
		s.retryAt = max(s.wokenFor, now)
		return
	}
	s.retryAt = min(now+wait.PollCap+s.Policy.Jitter(wait.PollCap/4), s.reserveAt(now))
	if s.subscription.Watch == wait.Unwatched {
		s.subscription.Begin(&s.Base, s.Address.Kind.Channel(s.Address.Raw, ""))
	}
}

// onAttemptFailed handles an attempt that failed:
//   - If Redis has rejected it, every waiter is refused.
//   - If the call arrived after the limit for repeats (expired), the outcome cannot be learned any more. If the attempt may have taken permits, they
//     are lost for all processes, and an event reports the loss. The waiters stay in the queue, and a new attempt serves them.
//   - If the call arrived within that limit but after its deadline, the waiters try again at once. After LateMax failures in a row, the last rule
//     applies instead.
//   - After any other failure, waiters that are tries are refused at once, with the cause. Other waiters are refused when Redis has been silent
//     for too long.
func (s *State) onAttemptFailed(now time.Duration, m *countDone) {
	a := &s.attempt
	switch _, late := scripts.LateBy(m.err); {
	case m.class == scripts.Rejected:
		s.RefuseAll(scripts.Explain(m.err))
	case m.expired:
		s.loseTrack(a.op, &a.copies)
		s.retryAt = now
	case late && s.failures.Count < wait.LateMax:
		s.failures.Add(now, &m.call.Call, m.err)
		s.retryAt = now // the reply has corrected the estimate of the server's clock, so the next attempt can succeed
	default:
		s.failed(now, m)
	}
	if m.expired || a.duplicateUntil == 0 || !m.call.op.Changes {
		s.leaveAnswered(&a.copies)
		s.attempt = attempt{} // the next attempt is a new one: this one was not executed, was only a look, or cannot be repeated
	}
}

// failed notes that an attempt has failed. It refuses all tries. If Redis has been silent for policy.Patience while a waiter waited, failed refuses
// this waiter too. If waiters of the attempt are left, the attempt is made again; if none is left, it is undone.
func (s *State) failed(now time.Duration, m *countDone) {
	s.failures.Add(now, &m.call.Call, m.err)
	s.retryAt = now + s.Policy.Backoff(s.failures.Count)
	for r := s.Queue.Front(); r != nil; {
		next := r.Next
		if r.Try || s.failures.Silent(now, r.Came) >= s.Policy.Patience {
			s.leave(r)
			s.Fail(r, s.failures.Last)
		}
		r = next
	}
}

// RefuseAll answers every waiter with an error. It replaces the method of wait.Base, because each waiter must also leave the attempt.
func (s *State) RefuseAll(err error) {
	for r := s.Queue.Front(); r != nil; r = s.Queue.Front() {
		s.leave(r)
		s.Fail(r, err)
	}
}

// leave removes a request from the queue and from the attempt. It returns false if the request does not wait. In the attempt, nil replaces the
// request, so that each other request keeps its index: the reply has one entry for each waiter for which the attempt was sent.
func (s *State) leave(r *wait.Request) bool {
	for i, other := range s.attempt.served {
		if other == r {
			s.attempt.served[i] = nil
		}
	}
	return s.Queue.Remove(r)
}

// refusal is the answer to a try that was not served.
func (s *State) refusal(r *wait.Request) error {
	switch {
	case s.notSet:
		return r.Because(wait.NotSet(r))
	case s.left >= r.Number:
		return othersWait(r)
	default:
		return r.Because(fmt.Errorf("%w: available %d, wanted %d", protocol.ErrNotAcquired, s.left, r.Number))
	}
}

func othersWait(r *wait.Request) error {
	return r.Because(fmt.Errorf("%w: others wait for permits", protocol.ErrNotAcquired))
}

// waitError is the answer to a waiter whose wait was cancelled.
func (s *State) waitError(r *wait.Request, cause error) error {
	if last := s.failures.Last; last != nil && s.failures.Count > 0 {
		cause = fmt.Errorf("%w: %w", cause, last)
	} else if s.notSet {
		cause = fmt.Errorf("%w: %w", wait.NotSet(r), cause)
	}
	if r.Count.Way == scripts.Take && !errors.Is(cause, protocol.ErrNotAcquired) {
		cause = fmt.Errorf("%w: %w", protocol.ErrNotAcquired, cause)
	}
	return r.Because(cause)
}
