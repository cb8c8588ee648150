package lock

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Nobody renews a fixed lease, so nobody here would notice that Redis has lost it, or that it was freed by force: other processes would
// take the lock in turn while those who wait here waited for the end of the lease. So while somebody wants it, Redis is asked now and
// then whether it still has the grant, as often as a waiter of another process would ask.

// looking is what is asked about a fixed lease.
type looking struct {
	call   *lockCall     // on its way; nil: none
	at     time.Duration // the next is due; 0: nobody wants the lock
	wanted bool          // something has happened since the last that asks for one
}

// forgettable reports whether a grant is held that Redis may lose without anybody noticing, and for which others wait here: nobody waits for
// one permit, but for any.
func (s *State) forgettable() bool {
	return s.phase == held && !s.grant.Watched && s.address.Kind.Inspect != nil
}

// wantLook has Redis asked although nobody waits: a try was refused because of what is held here, and the next one is to know better; or
// a force-release may have ended it.
func (s *State) wantLook() {
	if s.forgettable() {
		s.lookingOf().wanted = true
	}
}

func (s *State) lookingOf() *looking {
	if s.looking == nil {
		s.looking = &looking{}
	}
	return s.looking
}

// advanceLook looks when it is time; in a group that is decided by the group.
func (s *State) advanceLook(now time.Duration) {
	switch l := s.looking; {
	case s.member != nil:
	case !s.forgettable(), s.queue.Len == 0 && (l == nil || !l.wanted):
		if l != nil {
			l.at = 0
		}
	case l == nil || l.at == 0:
		s.lookingOf().at = now + s.policy.PollCap
	case now >= l.at:
		l.at, l.wanted = now+s.policy.PollCap, false
		s.look(now)
	}
}

// lookAt is when advanceLook will look; never: not by itself.
func (s *State) lookAt() time.Duration {
	if s.looking == nil || s.looking.at == 0 || !s.forgettable() {
		return clock.Never
	}
	return s.looking.at
}

func (s *State) look(now time.Duration) {
	if l := s.lookingOf(); l.call == nil && s.phase == held && !s.grant.Watched {
		l.call = &lockCall{do: callLook, address: s.address, grant: s.grant.ID, target: s.grant}
		l.call.Timing = rpc.Hasty(now, rpc.Window(s.policy.Lease))
		s.emit(wait.Effect{Do: wait.DoCall, Call: l.call})
	}
}

// looks reports whether the answer to a look is awaited.
func (s *State) looks() bool { return s.looking != nil && s.looking.call != nil }

func (s *State) onLookDone(now time.Duration, m *callDone) {
	if s.looking == nil || m.call != s.looking.call {
		return
	}
	s.looking.call = nil
	gone := m.class == scripts.Done && !m.held || m.class == scripts.Rejected && errors.Is(scripts.Explain(m.err), protocol.ErrForeignKey)
	if gone && s.phase == held && s.grant == m.call.target {
		s.lose(now, lease.GoneReason, false)
	}
}

// advanceLook has the members look that hold what somebody else here wants.
func (h *Group) advanceLook(now time.Duration) {
	switch {
	case h.fixed == 0 || h.crowd == 0 && !h.wanted:
		h.lookAt = 0
		return
	case h.lookAt == 0:
		h.lookAt = now + h.policy.PollCap
	case now >= h.lookAt:
		h.lookAt, h.wanted = now+h.policy.PollCap, false
		for s := h.first; s != nil; s = s.next {
			if s.fixed {
				h.again = append(h.again, again{&s.State, wait.LookAround{}})
			}
		}
		h.follow(now)
	}
	h.alarmAt = min(h.alarmAt, h.lookAt)
}
