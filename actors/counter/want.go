package counter

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// want keeps a waiter for several permits from starving. No other waiter of this process overtakes such a waiter. But if other processes acquire
// single permits again and again, there may never be enough free permits at once. So when a waiter for several permits has been the oldest one of its
// process for a while, the process makes a reservation. While a reservation lasts, the acquire scripts of other runtimes take no permits. Redisson's
// clients ignore reservations.
//
// A reservation blocks nobody for ever: its key in Redis expires unless a call renews it. When the time of a reservation is over, the runtime ends
// it, even if the waiter has not got its permits. The waiter's next reservation is twice as long. When a runtime has ended a reservation, a rest
// begins, during which nobody may make another one. The rest is as long as the reservation was, so half of the time is left to other waiters. If a
// reservation expires because its runtime crashed or could not reach Redis, there is no rest.
type want struct {
	head   *wait.Request    // the oldest waiter
	since  time.Duration    // when head became the oldest waiter
	length time.Duration    // length of the next reservation for head
	began  time.Duration    // when this process's reservation began
	until  time.Duration    // when this process's reservation ends, or 0 if it has none
	rest   time.Duration    // this process makes no reservation before this instant
	op     *scripts.CountOp // the operation that made the reservation
}

const (
	wantAfter = 100 * time.Millisecond // a waiter for several permits that has been the oldest for this long may reserve them
	wantMax   = 30 * time.Second       // longest reservation
	wantStep  = time.Second            // one attempt reserves for at most this long; a later attempt renews or ends the reservation before that
	wantSlack = wantStep / 3           // extra time for which Redis keeps a reservation: the call that ends it must arrive before the key expires
	restMin   = 50 * time.Millisecond  // shortest rest
)

// noteHead notes when a request has become the oldest waiter.
func (s *State) noteHead(now time.Duration) {
	if head := s.Queue.Front(); head != s.want.head {
		s.want.head, s.want.since, s.want.length = head, now, 2*wantAfter
	}
}

// deserves reports whether the oldest waiter may make a reservation now. The result `at` is the instant from which the oldest waiter may make one, or
// clock.Never if it may make none.
func (s *State) deserves(now time.Duration) (yes bool, at time.Duration) {
	head := s.Queue.Front()
	if head == nil || head.Try || head.Count.Way != scripts.Take || head.Number <= 1 {
		return false, clock.Never
	}
	at = max(s.want.since+wantAfter, s.want.rest)
	return now >= at, at
}

// reservation returns the part of an attempt that makes, renews or ends a reservation. Because this part travels with attempts, it costs no call of
// its own. The result `reserve` is the time for which Redis keeps the reservation; -1 ends the present reservation, and 0 changes nothing. The result
// `rest` is the time for which nobody may reserve after the reservation has ended.
func (s *State) reservation(now time.Duration) (reserve, rest time.Duration) {
	w := &s.want
	yes, _ := s.deserves(now)
	switch {
	case w.until == 0 && yes:
		return min(w.length, wantStep) + wantSlack, restMin
	case w.until == 0:
		return 0, 0
	case !yes || now >= w.until:
		return -1, max(now-w.began, restMin)
	}
	return min(w.until-now, wantStep) + wantSlack, max(now-w.began, restMin)
}

// noteReservation handles the part of an attempt's reply that is about the reservation.
func (s *State) noteReservation(now time.Duration, m *countDone) {
	w := &s.want
	switch {
	case m.counted.Reserved && w.until == 0:
		w.began, w.until, w.op = m.sent, m.sent+w.length, m.call.op
	case m.counted.Reserved || w.until == 0:
	default: // the reservation has helped, or has ended
		w.until, w.rest, w.op = 0, now+m.call.terms.Rest, m.call.op
		if m.call.terms.Reserve < 0 {
			w.length = min(2*w.length, wantMax)
		}
	}
}

// noteUnknown assumes that a reservation whose outcome is unknown was made. So if the waiter leaves, a call ends the reservation. Without that
// call the reservation would expire, and other processes are not notified of an expiry.
func (s *State) noteUnknown(now time.Duration, call *countCall) {
	if w := &s.want; call.terms.Reserve > 0 && w.until == 0 {
		w.began, w.until, w.op = now, now+w.length, call.op
	}
}

// reserveAt returns the instant at which the next attempt is needed to make, renew or end a reservation.
func (s *State) reserveAt(now time.Duration) time.Duration {
	if s.want.until > 0 {
		return min(now+wantStep/3, s.want.until)
	}
	if yes, at := s.deserves(now); !yes {
		return at
	}
	return clock.Never // another process has a reservation: the next poll is early enough
}

// advanceReservation ends a reservation when no waiter is left. Without this, other processes would have to wait until the reservation expires. The
// call that ends the reservation is an acquire without waiters. While the runtime drains or closes, advanceReservation also ends a rest that has
// begun.
func (s *State) advanceReservation(now time.Duration) {
	w := &s.want
	if s.attempt.request != "" || s.Queue.Len > 0 || w.until == 0 && (s.Stage < wait.Draining || now >= w.rest) {
		return
	}
	terms := scripts.CountTerms{Reserve: -1, Rest: max(now-w.began, restMin)}
	w.rest = now + terms.Rest
	if s.Stage >= wait.Draining {
		terms.Rest, w.rest = 0, 0
	}
	w.until = 0
	s.run(&task{op: w.op, once: true}, terms)
}
