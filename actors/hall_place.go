package actors

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

// Who gets a seat, and when. Waiters are seated in order of arrival: nobody passes one that has to wait.

// contendersMax is how many grants that may be held beside one another a process asks for at a time.
const contendersMax = 16

func (h *hall) onAcquire(now time.Duration, r *Request) {
	switch {
	case h.closing:
		r.err = r.because(protocol.ErrClosed)
	case r.requester != nil && h.waitingOf(r.requester, r.id) != nil:
		r.err = r.because(fmt.Errorf("%w: request ID %d is waiting already", protocol.ErrInvalid, r.id))
	case h.upgrades(r):
		r.err = r.because(protocol.ErrUpgrade)
	default:
		if s := h.reentered(r); s != nil {
			h.seat(now, s, r)
			return
		}
		if waiting := h.waiting(); waiting >= h.policy.MaxWaiters {
			r.err = r.because(protocol.ErrTooManyWaiters)
		} else if r.try && !h.open(now, r) {
			r.err = h.busyError(now, r)
		}
	}
	if r.err != nil {
		h.answer(r)
		return
	}
	h.wait(r)
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
	_, ok := h.place(now, r)
	return ok
}

// seatWaiters gives seats to who waits, until the next one has to wait.
func (h *hall) seatWaiters(now time.Duration) {
	for r := h.queue.front(); r != nil; r = h.queue.front() {
		s, ok := h.place(now, r)
		if !ok {
			return
		}
		if s == nil {
			s = h.newSeat(r)
		}
		h.leave(r)
		h.seat(now, &s.lockState, r)
	}
}

// place finds the seat for a waiter: nil for a new one, not ok when it has to wait.
func (h *hall) place(now time.Duration, r *Request) (s *seat, ok bool) {
	switch kind := r.address.Kind; {
	case kind.Queued:
		return nil, true
	case !kind.Beside:
		return h.placeAlone(r)
	case kind.Shared:
		return h.placeShared(r)
	default:
		return nil, h.mayContend(now)
	}
}

// placeAlone: those who hold alone wait until everybody else has gone, and share one seat, so that one may follow the other.
func (h *hall) placeAlone(r *Request) (found *seat, ok bool) {
	for s := h.first; s != nil; s = s.next {
		if s.address.Kind == r.address.Kind {
			found = s
		} else if !s.ended() {
			return nil, false
		}
	}
	return found, true
}

// placeShared: those who share wait for who is alone, unless it is themselves. The watchdog's have one seat, others their own.
func (h *hall) placeShared(r *Request) (found *seat, ok bool) {
	for s := h.first; s != nil; s = s.next {
		switch {
		case !s.address.Kind.Beside && !s.ended():
			return nil, s.heldBy(r.owner)
		case s.shared && r.lease == 0:
			found = s
		}
	}
	return found, true
}

// mayContend: some at a time ask Redis; once one has been refused, it alone.
func (h *hall) mayContend(now time.Duration) bool {
	n := 0
	for s := h.first; s != nil; s = s.next {
		if s.contends() {
			if n++; n == contendersMax || s.waits(now) {
				return false
			}
		}
	}
	return true
}

// upgrades reports whether r's owner holds beside others what it now wants alone: it would wait for itself.
func (h *hall) upgrades(r *Request) bool {
	if r.address.Kind.Beside || r.owner.IsZero() {
		return false
	}
	for s := h.first; s != nil; s = s.next {
		if s.address.Kind.Beside && s.heldBy(r.owner) {
			return !h.holdsAlone(r)
		}
	}
	return false
}

// holdsAlone reports whether r's owner holds the lock alone already: it then only enters again.
func (h *hall) holdsAlone(r *Request) bool {
	for s := h.first; s != nil; s = s.next {
		if s.address.Kind == r.address.Kind && s.heldBy(r.owner) {
			return true
		}
	}
	return false
}

// reentered is the seat that r's owner holds already.
func (h *hall) reentered(r *Request) *lockState {
	if r.owner.IsZero() || !r.address.Kind.Owned {
		return nil
	}
	for s := h.first; s != nil; s = s.next {
		if s.address.Kind == r.address.Kind && s.heldBy(r.owner) {
			return &s.lockState
		}
	}
	return nil
}

// newSeat is a seat for r, and for those who may share it.
func (h *hall) newSeat(r *Request) *seat {
	s := &seat{prev: h.last, shared: r.address.Kind.Shared && r.lease == 0}
	s.init(h.policy, r.address)
	s.self, s.yield, s.seat, s.closing = h.self, &h.turns, s, h.closing
	s.standby = r.address.Kind.Queued && h.holding+h.seats > 0
	for other := h.first; other != nil; other = other.next {
		if !other.address.Kind.Beside && other.heldBy(r.owner) {
			s.reserved, s.shared = other.grant.plain, false // an owner that holds alone keeps its number when it shares
			other.turn.spent = true                         // nobody may follow it while it shares
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
