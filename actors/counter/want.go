package counter

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// want keeps a waiter for several permits from starving. Inside the process nobody overtakes it; other processes would, for ever,
// as single permits are taken again before several have come together. So after a while as the oldest waiter here it reserves: the
// acquire scripts of other runtimes take nothing then. Redisson does not know of reservations.
//
// Nothing depends on it for liveness. A reservation is a key that expires within wantStep unless it is renewed. One that did not
// help (too few permits are ever given back in that time, or there are not so many) ends after its length, the next one is twice as
// long. And when one has ended, nobody may reserve for as long as it lasted, so all of them together leave the others half of the time.
type want struct {
	head   *wait.Request    // the oldest waiter, since
	since  time.Duration    // this instant
	length time.Duration    // of its next reservation
	began  time.Duration    // the one that we have
	until  time.Duration    // its end; 0: we have none
	rest   time.Duration    // none before this instant
	op     *scripts.CountOp // that reserved
}

const (
	wantStep = time.Second           // how long a reservation lasts in Redis without a renewal
	restMin  = 50 * time.Millisecond // shortest rest
)

// noteHead notes when somebody has become the oldest waiter.
func (s *State) noteHead(now time.Duration) {
	if head := s.queue.Front(); head != s.want.head {
		s.want.head, s.want.since, s.want.length = head, now, 2*s.policy.Want
	}
}

// deserves tells whether the oldest waiter may reserve; if not now, then from an instant on.
func (s *State) deserves(now time.Duration) (yes bool, at time.Duration) {
	head := s.queue.Front()
	if head == nil || head.Try || head.Count.Way != scripts.Take || head.Number <= 1 {
		return false, clock.Never
	}
	at = max(s.want.since+s.policy.Want, s.want.rest)
	return now >= at, at
}

// reservation is what an attempt says about reserving.
func (s *State) reservation(now time.Duration) (reserve, rest time.Duration) {
	w := &s.want
	yes, _ := s.deserves(now)
	switch {
	case w.until == 0 && yes:
		return min(w.length, wantStep), restMin
	case w.until == 0:
		return 0, 0
	case !yes || now >= w.until:
		return -1, max(now-w.began, restMin)
	}
	return max(min(w.until-now, wantStep), time.Millisecond), max(now-w.began, restMin)
}

// noteReservation takes in what an attempt's answer says about it.
func (s *State) noteReservation(now time.Duration, m *countDone) {
	w := &s.want
	switch {
	case m.counted.Reserved && w.until == 0:
		w.began, w.until, w.op = m.sent, m.sent+w.length, m.call.op
	case m.counted.Reserved || w.until == 0:
	default: // it has helped, or has ended
		w.until, w.rest, w.op = 0, now+m.call.terms.Rest, m.call.op
		if m.call.terms.Reserve < 0 {
			w.length = min(2*w.length, s.policy.WantMax)
		}
	}
}

// noteUnknown takes a reservation for made that may have been: who leaves then lets the others in, who would not be told when it expires.
func (s *State) noteUnknown(now time.Duration, call *countCall) {
	if w := &s.want; call.terms.Reserve > 0 && w.until == 0 {
		w.began, w.until, w.op = now, now+w.length, call.op
	}
}

// reserveAt is when the next attempt is due for the sake of a reservation: to make it, to renew it, or to end it.
func (s *State) reserveAt(now time.Duration) time.Duration {
	if s.want.until > 0 {
		return min(now+wantStep/3, s.want.until)
	}
	if yes, at := s.deserves(now); !yes {
		return at
	}
	return clock.Never // somebody else has reserved: the next poll is early enough
}

// advanceReservation ends a reservation that nobody waits for any more, by an attempt for nobody. An actor of a runtime that ends leaves no rest.
func (s *State) advanceReservation(now time.Duration) {
	w := &s.want
	if s.attempt.request != "" || s.queue.Len > 0 || w.until == 0 && (s.stage < wait.Draining || now >= w.rest) {
		return
	}
	terms := scripts.CountTerms{Reserve: -1, Rest: max(now-w.began, restMin)}
	w.rest = now + terms.Rest
	if s.stage >= wait.Draining {
		terms.Rest, w.rest = 0, 0
	}
	w.until = 0
	s.run(&task{op: w.op, once: true}, terms)
}
