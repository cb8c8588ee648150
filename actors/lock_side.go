package actors

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Side calls run beside the grant's own calls: they change no phase, and each is answered to the request that asked for it.

func (s *lockState) onExtend(now time.Duration, r *Request) {
	switch h := s.holdOf(r); {
	case h == nil || s.phase != held:
		s.answer(r, s.sideError(r, protocol.ErrNotHeld))
	case s.grant.watched:
		s.answer(r, s.sideError(r, fmt.Errorf("%w: the lease is renewed by the watchdog, only a fixed one can be extended", protocol.ErrInvalid)))
	default:
		s.sendExtend(now, r, r.lease)
	}
}

// sendExtend sets what is left of the grant's lease. Until the answer the shorter of both counts.
func (s *lockState) sendExtend(now time.Duration, r *Request, lease time.Duration) {
	s.sideCall(&lockCall{
		do: callExtend, grant: s.grant.id, lease: lease, request: r, target: s.grant,
		deadline: min(now+Window(lease), s.grant.until()),
	})
	if short := deadlineOf(now, lease); short < s.grant.until() {
		s.grant.deadline.Store(int64(short))
		s.guarded = true
	}
}

// onSide is an inspect or a force-release.
func (s *lockState) onSide(now time.Duration, r *Request) {
	c := &lockCall{do: callInspect, deadline: now + Window(s.policy.Lease), request: r}
	if r.do == opForceRelease {
		c.do, c.target = callForceRelease, s.grant
	}
	s.sideCall(c)
}

func (s *lockState) sideCall(c *lockCall) {
	s.sides = append(s.sides, c)
	s.emit(effect{do: doCall, call: c})
}

func (s *lockState) onSideDone(now time.Duration, m *callDone) {
	i := slices.Index(s.sides, m.call)
	if i < 0 {
		return // cancelled
	}
	s.sides = slices.Delete(s.sides, i, i+1)
	r := m.call.request
	switch {
	case m.call.do == callExtend:
		s.onExtendDone(now, m)
	case m.class != scripts.Done:
		s.answer(r, s.sideError(r, scripts.Explain(m.err)))
	case m.call.do == callForceRelease:
		r.held = m.held
		if m.held && s.phase == held && m.call.target == s.grant {
			s.lose(now, "force-released", false)
		}
		s.answer(r, nil)
	default:
		r.state = m.state
		r.state.Waiting = s.queue.len
		for _, h := range s.holds {
			r.state.Local = append(r.state.Local, h.who())
		}
		s.answer(r, nil)
	}
}

func (s *lockState) onExtendDone(now time.Duration, m *callDone) {
	r, current := m.call.request, s.phase == held && m.call.target == s.grant
	switch {
	case !current:
		s.answer(r, s.lostError())
	case m.class == scripts.Rejected:
		s.answer(r, s.sideError(r, scripts.Explain(m.err)))
	case m.class != scripts.Done && s.grant.left(now) > 0:
		s.sendExtend(now, r, m.call.lease)
	case m.class != scripts.Done || !m.held:
		s.lose(now, "gone from Redis", false)
		s.answer(r, s.lostError())
	case !s.grant.extend(now, deadlineOf(m.sent, m.call.lease)):
		s.lose(now, "expired", true)
		s.answer(r, s.lostError())
	default:
		s.emit(effect{do: doDrop, grant: s.grant})
		s.emit(effect{do: doKeep, grant: s.grant})
		if r.do == opAcquire {
			s.hand(r) // a re-entry that asked for more time
		} else {
			r.until = s.grant.until()
			s.answer(r, nil)
		}
	}
}

// cancelSide answers a side call's request now; what it asked for may still happen.
func (s *lockState) cancelSide(r *Request, cause error) {
	i := slices.IndexFunc(s.sides, func(c *lockCall) bool { return c.request == r })
	if i >= 0 {
		s.sides = slices.Delete(s.sides, i, i+1)
		s.answer(r, s.sideError(r, cause))
	}
}

func (s *lockState) sideError(r *Request, cause error) error {
	return fmt.Errorf("holdfast: %s %q: %w", r.do, s.address.Name, cause)
}

// who names the holder for people: its owner, or its grant when it has none.
func (h *Hold) who() string {
	if h.owner.IsZero() {
		return h.grant.id
	}
	return h.owner.String()
}

func (o operation) String() string {
	return [...]string{"acquire", "release", "extend", "inspect", "force-release"}[o]
}
