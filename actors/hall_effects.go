package actors

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/protocol"
)

// What the steps of the seats make happen, as the effects of one actor.

// pass has a seat take a message, and all that follows from it.
func (h *hall) pass(now time.Duration, s *lockState, message any) {
	h.again = append(h.again, again{s, message})
	if h.atHand != nil {
		return // the loop below is running
	}
	for len(h.again) > 0 {
		next := h.again[0]
		h.again = h.again[1:]
		h.take(now, next.seat, next.message)
	}
}

func (h *hall) take(now time.Duration, s *lockState, message any) {
	had := s.grant != nil
	h.atHand = s
	effects := s.step(now, message)
	h.absorb(now, s, effects)
	h.atHand = nil
	if has := s.grant != nil; has != had {
		h.holding += map[bool]int{true: 1, false: -1}[has]
	}
	if done, ok := message.(*callDone); ok && done.inherits {
		h.inherit(done)
	}
	if s.failures.count > 0 && now-s.failures.first >= h.policy.Patience {
		h.refuseWaiting(s.failures.last)
	}
	if s.seat != nil && !s.seat.gone && s.idle() {
		h.leaveSeat(s.seat)
	}
}

// seat has r served by a seat.
func (h *hall) seat(now time.Duration, s *lockState, r *Request) {
	r.home = s
	h.pass(now, s, r)
}

func (h *hall) absorb(now time.Duration, s *lockState, effects []effect) {
	for i := range effects {
		switch e := &effects[i]; e.do {
		case doCall:
			e.call.home = s
			if e.call.do == callRelease && s.address.Kind.Queued {
				e.call.heir = h.heir(s)
			}
			h.effects = append(h.effects, *e)
		case doAnswer:
			h.onAnswer(now, s, e.request)
			h.effects = append(h.effects, *e)
		case doAlarm:
			h.alarmAt = min(h.alarmAt, e.at)
		case doWatch:
			h.listen(s, e.channel)
		case doUnwatch:
			h.unlisten(s, e.channel)
		case doGuard:
			h.guard(e.pid)
		case doUnguard:
			h.unguard(e.pid)
		case doStop, doStay:
		default:
			h.effects = append(h.effects, *e)
		}
	}
}

// heir is our first contender in Redis' queue, to be granted by the release of s if it is the next of all.
func (h *hall) heir(s *lockState) *trial {
	for other := h.first; other != nil; other = other.next {
		if &other.lockState != s && other.contends() && other.trial.id != "" {
			heir := other.trial
			return &heir
		}
	}
	return nil
}

// inherit tells the heir that it holds the lock.
func (h *hall) inherit(done *callDone) {
	for s := h.first; s != nil; s = s.next {
		if s.trial.id == done.call.heir.id {
			h.again = append(h.again, again{&s.lockState, inherited{done.call.heir.id, done.sent}})
			return
		}
	}
}

// onAnswer completes what one seat alone cannot know.
func (h *hall) onAnswer(now time.Duration, s *lockState, r *Request) {
	switch {
	case r.do == opInspect && r.err == nil:
		r.state.Waiting, r.state.Local = h.waiting(), h.local()
	case r.do == opForceRelease && r.held:
		for _, g := range r.targets {
			h.again = append(h.again, again{g.home, grantGone{grant: g, reason: "force-released"}})
		}
	case r.do == opAcquire && r.err == nil && !r.owner.IsZero() && r.address.Kind.Owned:
		h.gather(now, s, r)
	}
}

// gather serves an owner that waits in several goroutines, once it holds the lock in one.
func (h *hall) gather(_ time.Duration, s *lockState, r *Request) {
	same := func(q *requestQueue) {
		for other := q.front(); other != nil; {
			match := other
			if other = other.next; match.owner == r.owner && match.address.Kind == r.address.Kind {
				if q == &h.queue {
					h.leave(match)
				} else {
					q.remove(match)
					match.home.unbindMoved(match)
					h.again = append(h.again, again{match.home, nil}) // it may be left with nothing to do
				}
				match.home = s
				h.again = append(h.again, again{s, match})
			}
		}
	}
	same(&h.queue)
	for other := h.first; other != nil; other = other.next {
		if &other.lockState != s {
			same(&other.queue)
		}
	}
}

// wait puts a request in line for a seat.
func (h *hall) wait(r *Request) {
	h.queue.push(r)
	if r.requester != nil {
		h.guard(r.requester)
	}
}

// leave takes it out of the line.
func (h *hall) leave(r *Request) {
	if h.queue.remove(r) && r.requester != nil {
		h.unguard(r.requester)
	}
}

func (h *hall) guard(pid *actor.PID) {
	if h.guarded[pid.String()]++; h.guarded[pid.String()] == 1 {
		h.effects = append(h.effects, effect{do: doGuard, pid: pid})
	}
}

func (h *hall) unguard(pid *actor.PID) {
	n := h.guarded[pid.String()]
	if n == 0 {
		return // it has terminated
	}
	if h.guarded[pid.String()] = n - 1; n == 1 {
		delete(h.guarded, pid.String())
		h.effects = append(h.effects, effect{do: doUnguard, pid: pid})
	}
}

func (h *hall) listen(s *lockState, channel string) {
	l := h.listeners[channel]
	if l == nil {
		l = &listeners{}
		h.listeners[channel] = l
		h.effects = append(h.effects, effect{do: doWatch, channel: channel})
	}
	l.seats = append(l.seats, s)
	if l.ready {
		h.again = append(h.again, again{s, channelReady{channel}})
	}
}

func (h *hall) unlisten(s *lockState, channel string) {
	l := h.listeners[channel]
	l.seats = slices.DeleteFunc(l.seats, func(other *lockState) bool { return other == s })
	if len(l.seats) == 0 {
		delete(h.listeners, channel)
		h.effects = append(h.effects, effect{do: doUnwatch, channel: channel})
	}
}

// refuseWaiting answers those who wait for a seat as the seats' own waiters have been: Redis has not answered for too long.
func (h *hall) refuseWaiting(cause error) {
	for r := h.queue.front(); r != nil; r = h.queue.front() {
		h.leave(r)
		r.err = r.because(cause)
		h.answer(r)
	}
}

func (h *hall) answer(r *Request) { h.effects = append(h.effects, effect{do: doAnswer, request: r}) }

// waiting is how many acquires wait, for a seat or in one.
func (h *hall) waiting() int {
	n := h.queue.len
	for s := h.first; s != nil; s = s.next {
		n += s.queue.len
	}
	return n
}

func (h *hall) local() (all []string) {
	for s := h.first; s != nil; s = s.next {
		for _, hold := range s.holds {
			all = append(all, hold.who())
		}
	}
	return all
}

func (h *hall) grants() (all []*Grant) {
	for s := h.first; s != nil; s = s.next {
		if s.phase == held {
			all = append(all, s.grant)
		}
	}
	return all
}

// known is the seat that knows most about who holds the lock: one that holds it, or the first that was refused.
func (h *hall) known() *lockState {
	known := &h.desk
	for s := h.first; s != nil; s = s.next {
		if s.phase == held {
			return &s.lockState
		}
		if known == &h.desk && s.contends() {
			known = &s.lockState
		}
	}
	return known
}

func (h *hall) busyError(now time.Duration, r *Request) error { return h.known().busyError(now, r) }

func (h *hall) waitError(now time.Duration, r *Request, cause error) error {
	return h.known().waitError(now, r, cause)
}

// heldBy reports whether an owner has a lease on this grant.
func (s *lockState) heldBy(owner protocol.Owner) bool {
	return !owner.IsZero() && s.phase == held && slices.ContainsFunc(s.holds, func(h *Hold) bool { return h.owner == owner })
}
