package lock

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// With Options.Linger a grant outlives its last holder: it stays in Redis without a holder, renewed by the watchdog, and the next local acquire gets
// it without a call. The grant is released as soon as another process wants the lock: the script that refuses that process sends this runtime a
// demand (wait.Demanded). The scripts of other clients, such as Redisson's, send no demand. For those clients, the lock becomes free when
// Options.Linger is over, or, if the lock has a local holder at that time, when that holder releases it. Options.Linger counts from the first release
// in a turn, and later uses of the lock in that turn do not prolong it.
//
// Other systems keep unused grants in the same way: NFSv4 with its delegations of files (RFC 7530, section 10.4), and Chubby's clients with their
// cached locks (M. Burrows, "The Chubby lock service", 2006, section 2.7).

// onDemanded notes that another process or another kind of lock wants the grant. A demand also counts if it arrives before this process knows that it
// has the grant. A demand for an earlier grant of this turn counts as well: a pass has replaced that grant without notifying any waiter. While the
// grant is being released, a demand changes nothing, because the release notifies the waiters.
//
// The field Freed of a demand says that the grant was released by force. Anybody may publish such a message, so the message alone proves nothing: if
// a local holder has the grant, Redis is asked at once whether the grant still exists.
func (s *State) onDemanded(now time.Duration, m wait.Demanded) {
	ours := s.grant != nil && (s.grant.ID == m.Grant || s.turn.passed)
	if m.Grant == "" || s.phase == releasing || !ours && s.pending.id != m.Grant {
		return
	}
	s.demanded = true
	if m.Freed && ours && s.phase == held && len(s.holds) > 0 {
		s.look(now)
	}
}

// linger reports whether a grant stays in Redis although nobody here holds it or waits for it.
func (s *State) linger(now time.Duration) bool {
	if !s.Address.Kind.Lingers || s.Stage != wait.Running || s.demanded || s.turn.spent || s.turn.served == 0 {
		return false
	}
	usual := s.grant.Watched && !s.grant.terms.Own() && s.grant.Missing(now) <= 0 // the grant has no special terms that only one holder asked for
	if !usual || !s.grant.sound(now) || s.extension != nil && len(s.extension.waiting) > 0 {
		return false
	}
	if s.turn.lingerTo == 0 {
		s.turn.lingerTo = now + s.Policy.Linger
	}
	return true
}

// advanceLinger ends the turn when its grants may no longer linger, because Options.Linger is over. If a grant has a local holder at that time, the
// grant ends when the holder releases it.
func (s *State) advanceLinger(now time.Duration) {
	if now >= s.turn.lingerTo {
		s.turn.spent = true
	}
}

// lingerAt returns the instant at which a grant that may linger must be checked next. If the grant has a holder, this is the end of Options.Linger.
// If the grant has none, this is the end of Options.Linger or the instant from which the renewal is overdue, whichever is earlier. The end of
// Options.Linger stays the same for the whole turn, so that the timer need not be set again for each holder.
func (s *State) lingerAt() time.Duration {
	switch {
	case s.phase != held || s.turn.lingerTo == 0 || s.turn.spent:
		return clock.Never
	case len(s.holds) > 0:
		return s.turn.lingerTo
	}
	return min(s.turn.lingerTo, s.grant.Until()-s.grant.Lease/3)
}

// tellLinger emits an effect when a grant begins to linger, and when it stops. If a request causes the change, tellLinger is called before the
// request is answered, so that Stats is up to date when the caller has the answer.
func (s *State) tellLinger() {
	if lingering := s.phase == held && len(s.holds) == 0; lingering != s.lingering {
		s.lingering = lingering
		do := wait.DoUnlinger
		if lingering {
			do = wait.DoLinger
		}
		s.Emit(wait.Effect{Do: do})
	}
}

// endLinger ends the lingering grant if a request is queued. In a group, only a writer's grant lingers. No queued request can use that grant: a
// request for the write lock would have joined the grant's member instead of being queued, and a reader cannot have a writer's grant.
func (h *Group) endLinger(now time.Duration) {
	if h.Queue.Len == 0 {
		return
	}
	if s := h.lingering(); s != nil {
		h.deliver(now, s, wait.Demanded{Grant: s.grant.ID})
	}
}

// lingering returns the member whose grant lingers, or nil if none does. There is at most one, because only an exclusive grant lingers.
func (h *Group) lingering() *State {
	if h.Policy.Linger == 0 {
		return nil
	}
	for s := h.first; s != nil; s = s.next {
		if s.lingering {
			return &s.State
		}
	}
	return nil
}
