package actors

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/protocol"
)

// Who gets a seat, and when. Waiters are seated in order of arrival: nobody passes one that has to wait.

const (
	// contendersMax is how many waiters of a process ask at a time for grants that may be held beside one another.
	contendersMax = 16
	// behindMax is how many seats behind a waiter that gives up are looked at for those who move up.
	behindMax = 16
)

// admit takes a request, or takes one back that has been here before: that one counts among those who wait already.
func (h *hall) admit(now time.Duration, r *Request, before bool) {
	if !before {
		r.came = now
	}
	if err := h.objection(r); err != nil {
		h.answer(r, err)
		return
	}
	if s := h.reentered(r); s != nil {
		h.seat(now, s, r)
		return
	}
	if h.above(r) != nil { // whoever waits in line waits for this very owner
		h.seat(now, &h.newSeat(r).lockState, r)
		return
	}
	switch waiting := h.crowd; {
	case waiting >= h.policy.MaxWaiters && !before:
		h.answer(r, r.because(tooMany(waiting)))
	case r.try && !h.open(now, r):
		h.wanted = h.fixed > 0
		h.answer(r, h.busyError(now, r))
	case h.queue.len > 0 || !h.place(now, r):
		h.wait(r)
	}
}

// objection is why an acquire cannot be served at all.
func (h *hall) objection(r *Request) error {
	switch {
	case r.requester != nil && h.waitingOf(r.requester, r.id) != nil:
		return r.because(fmt.Errorf("%w: request ID %d is waiting already", protocol.ErrInvalid, r.id))
	case h.upgrades(r):
		return r.because(protocol.ErrUpgrade)
	case h.stage >= draining && h.reentered(r) == nil && h.above(r) == nil:
		return r.because(protocol.ErrClosed)
	}
	return nil
}

// open reports whether r would get a seat at once; a try may not wait for one.
func (h *hall) open(now time.Duration, r *Request) bool {
	if h.queue.len > 0 {
		return false
	}
	for s := h.first; s != nil; s = s.next {
		alone := !r.address.Kind.Beside
		if s.contends() && (alone || s.waits(now)) || len(s.holds) > 0 && alone {
			return false
		}
	}
	_, ok := h.find(now, r)
	return ok
}

// seatWaiters gives seats to who waits, until the next one has to wait.
func (h *hall) seatWaiters(now time.Duration) {
	for r := h.queue.front(); r != nil; r = h.queue.front() {
		if !h.place(now, r) {
			return
		}
	}
}

// place gives r a seat, if it does not have to wait for one.
func (h *hall) place(now time.Duration, r *Request) bool {
	s, ok := h.find(now, r)
	if !ok {
		return false
	}
	if s == nil {
		s = h.newSeat(r)
	}
	h.leave(r)
	h.seat(now, &s.lockState, r)
	return true
}

// find finds the seat for r: nil for a new one, not ok when it has to wait.
func (h *hall) find(now time.Duration, r *Request) (s *seat, ok bool) {
	switch kind := r.address.Kind; {
	case kind.Queued:
		return nil, true
	case !kind.Beside:
		return h.findAlone(r)
	case kind.Shared:
		return h.findShared(now, r)
	default:
		return nil, h.mayContend(now, r)
	}
}

// moveUp has the waiters behind one that gives up take the places before them in Redis' queue, which their process has waited for longest.
// The last place that comes free is left. So impatient waiters get a fair lock, too, and nobody else has more places before him. There may
// be very many waiters, so some move up and the others stay.
func (h *hall) moveUp(now time.Duration, gone *Request) {
	s := gone.home.seat
	if s == nil || !s.address.Kind.Queued || gone.queue != &s.queue {
		return
	}
	places, behind := []*seat{s}, 0
	for other := s.next; other != nil && behind < behindMax; other = other.next {
		behind++
		if !other.contends() {
			continue
		}
		if !places[len(places)-1].suits(other.queue.front()) {
			break
		}
		places = append(places, other)
	}
	for i := len(places) - 1; i > 0; i-- { // the last one first: a place that nobody waits for would be left
		from := places[i]
		r := from.queue.front()
		from.queue.remove(r)
		from.unbindMoved(r)
		h.seat(now, &places[i-1].lockState, r)
	}
	if len(places) > 1 {
		h.pass(now, &places[len(places)-1].lockState, nil)
	}
}

// suits reports whether the place in Redis' queue that this seat has, or has asked for, is good for r.
func (s *seat) suits(r *Request) bool {
	asked := s.trial.standing || s.inflight != nil && !s.inflight.try
	return asked && r.wants(s.trial.lease, s.trial.watched)
}

// findAlone: those who hold alone wait until everybody else has gone, and share one seat, so that one may follow the other.
func (h *hall) findAlone(r *Request) (found *seat, ok bool) {
	for s := h.first; s != nil; s = s.next {
		if s.address.Kind == r.address.Kind {
			found = s
		} else if !s.ended() {
			return nil, false
		}
	}
	return found, true
}

// findShared: those who share wait for who is alone. The watchdog's have one seat, as long as it is renewed; others have their own.
func (h *hall) findShared(now time.Duration, r *Request) (found *seat, ok bool) {
	for s := h.first; s != nil; s = s.next {
		switch {
		case !s.address.Kind.Beside && !s.ended():
			return nil, false
		case !s.shared || r.lease > 0 || s.phase == held && !s.sound(now):
		case found == nil || s.phase == held:
			found = s
		}
	}
	return found, found != nil || h.mayContend(now, r)
}

// mayContend: some waiters at a time ask Redis; once one has been refused, it alone. Tries are not counted: none of them stays.
func (h *hall) mayContend(now time.Duration, r *Request) bool {
	n := 0
	for s := h.first; s != nil; s = s.next {
		switch {
		case !s.contends():
		case s.waits(now):
			return false
		case !s.queue.front().try:
			n++
		}
	}
	return r.try || n < contendersMax
}

// upgrades reports whether r's owner holds beside others what it now wants alone: it would wait for itself.
func (h *hall) upgrades(r *Request) bool {
	return !r.address.Kind.Beside && h.alone(r.owner) == nil && h.holds(r.owner, func(s *seat) bool { return s.address.Kind.Beside }) != nil
}

// above is the seat by which r's owner holds alone what it now wants beside others: it may have both.
func (h *hall) above(r *Request) *seat {
	if !r.address.Kind.Beside {
		return nil
	}
	return h.alone(r.owner)
}

// enters reports whether a contender's owner holds the lock alone.
func (h *hall) enters(s *seat) bool { return s.contends() && h.above(s.queue.front()) != nil }

// alone is the seat by which an owner holds the lock alone.
func (h *hall) alone(owner protocol.Owner) *seat {
	return h.holds(owner, func(s *seat) bool { return !s.address.Kind.Beside })
}

// holds is the first of such seats by which an owner holds the lock.
func (h *hall) holds(owner protocol.Owner, such func(s *seat) bool) *seat {
	if owner.IsZero() {
		return nil
	}
	for s := h.first; s != nil; s = s.next {
		if such(s) && s.heldBy(owner) {
			return s
		}
	}
	return nil
}

// reentered is the seat that r's owner holds already.
func (h *hall) reentered(r *Request) *lockState {
	if !r.address.Kind.Owned {
		return nil
	}
	s := h.holds(r.owner, func(s *seat) bool { return s.address.Kind == r.address.Kind })
	if s == nil {
		return nil
	}
	return &s.lockState
}

// newSeat is a seat for r, and for those who may share it.
func (h *hall) newSeat(r *Request) *seat {
	s := &seat{hall: h, prev: h.last, shared: r.address.Kind.Shared && r.lease == 0}
	s.init(h.policy, r.address)
	s.queue.crowd = &h.crowd
	h.arrivals++
	s.ringing = &alarmPlace{order: h.arrivals}
	s.self, s.yield, s.seat = h.self, &h.turns, s
	s.standby = r.address.Kind.Queued && h.holding+h.seats > 0
	if alone := h.above(r); alone != nil {
		s.shared = false
		if !alone.grant.lent { // an owner that holds alone keeps its number when it shares; but no number is used twice
			alone.grant.lent, s.reserved = true, alone.grant.plain
		}
	}
	if h.last == nil {
		h.first = s
	} else {
		h.last.next = s
	}
	h.last = s
	h.seats++
	return s
}

// leaveSeat takes a seat away in which nothing is left.
func (h *hall) leaveSeat(s *seat) {
	if s.prev == nil {
		h.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		h.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.gone = true
	h.alarms.set(&s.lockState, clock.Never)
	h.seats--
}

// promote has the first contender of this process ask often and listen, when no holder here could pass the lock to it.
func (h *hall) promote(now time.Duration) {
	if !h.address.Kind.Queued || h.holding > 0 {
		return
	}
	for s := h.first; s != nil; s = s.next {
		if s.contends() {
			if s.standby {
				h.pass(now, &s.lockState, promoted{})
			}
			return
		}
	}
}

// contends reports whether somebody waits in this seat.
func (s *lockState) contends() bool {
	return s.queue.len > 0 && (s.phase == free || s.phase == acquiring)
}

// waits reports whether a contender has been refused, or not answered, and pauses before it asks again.
func (s *lockState) waits(now time.Duration) bool {
	return s.contends() && (s.failures.count > 0 || s.phase == free && s.retryAt > now)
}

// ended reports whether a seat has neither a grant nor somebody who wants one.
func (s *lockState) ended() bool { return s.phase == free && s.queue.len == 0 }
