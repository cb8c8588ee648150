package lock

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// A fixed lease is not renewed, so this process would not notice that Redis has lost the grant, or that the grant was force-released. Other processes
// would acquire the lock while the local waiters still wait for the end of the lease. So as long as there are local waiters, this process asks Redis
// whether the grant still exists. It asks as often as a waiter of another process would try. If a lease is renewed, this process asks only after a
// message that the lease was released by force (linger.go).

// looking is the state of the calls that ask Redis whether it still has the grant of a fixed lease. Such a call is named a question below.
type looking struct {
	call   *lockCall     // in flight, or nil if there is none
	at     time.Duration // when the next question is due, or 0 if none is planned
	wanted bool          // one more question is needed, even if no request waits
}

// forgettable reports whether Redis could lose the held grant without this process noticing. That is so if the grant's lease is fixed. Permits are
// excluded: their waiters wait for any permit, so they need not notice the loss of a particular one.
func (s *State) forgettable() bool {
	return s.phase == held && !s.grant.Watched && s.Address.Kind.Inspect != nil
}

// wantLook plans one question although no request waits. It is called after a try was refused because of a local holder or waiter, so that the next
// try gets a fresh answer.
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

// advanceLook asks Redis when a question is due. In a group, the group decides when.
func (s *State) advanceLook(now time.Duration) {
	switch l := s.looking; {
	case s.member != nil:
	case !s.forgettable(), s.Queue.Len == 0 && (l == nil || !l.wanted):
		if l != nil {
			l.at = 0
		}
	case l == nil || l.at == 0:
		s.lookingOf().at = now + wait.PollCap
	case now >= l.at:
		l.at, l.wanted = now+wait.PollCap, false
		s.look(now)
	}
}

// nextAt returns the instant of the next question, or clock.Never if none is planned. The caller checks that the grant is forgettable.
func (l *looking) nextAt() time.Duration {
	if l.at == 0 {
		return clock.Never
	}
	return l.at
}

// look sends the question, unless one is in flight. The call remembers the grant, because the answer may come when another one is held.
func (s *State) look(now time.Duration) {
	if l := s.lookingOf(); l.call == nil && s.phase == held {
		l.call = &lockCall{do: callLook, address: s.Address, terms: scripts.Terms{Grant: s.grant.ID}, target: s.grant}
		l.call.Timing = rpc.Hasty(now, rpc.Window(s.Policy.Lease))
		s.Emit(wait.Effect{Do: wait.DoCall, Call: l.call})
	}
}

// onLookDone ends the grant if Redis does not have it. After any other result the grant stays, because the next question is due soon.
func (s *State) onLookDone(now time.Duration, m *callDone) {
	if s.looking == nil || m.call != s.looking.call {
		return
	}
	s.looking.call = nil
	gone := m.class == scripts.Done && !m.held || m.class == scripts.Rejected && errors.Is(scripts.Explain(m.err), protocol.ErrForeignKey)
	if gone && s.phase == held && s.grant == m.call.target {
		s.lose(now, protocol.LossDeleted, false)
	}
}

// advanceLook makes the members with a fixed lease ask Redis from time to time whether it still has their grants. They ask as long as local requests
// wait, or once more if h.wanted is set.
func (h *Group) advanceLook(now time.Duration) {
	switch {
	case h.fixed == 0 || h.waiting == 0 && !h.wanted:
		h.lookAt = 0
		return
	case h.lookAt == 0:
		h.lookAt = now + wait.PollCap
	case now >= h.lookAt:
		h.lookAt, h.wanted = now+wait.PollCap, false
		for s := h.first; s != nil; s = s.next {
			if s.fixed {
				h.again = append(h.again, again{&s.State, wait.LookAround{}})
			}
		}
		h.follow(now)
	}
	h.dueAt = min(h.dueAt, h.lookAt)
}
