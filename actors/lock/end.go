package lock

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
)

// onCancel ends the wait of a request that has not been answered yet. A call that was sent for the request continues. If that call gets a grant, the
// grant is given to another waiter, or released. If the request was answered meanwhile, none of the lists contains it, and the cancel has no effect.
func (s *State) onCancel(now time.Duration, m wait.CancelRequest) {
	r := m.Request
	if s.Queue.Remove(r) {
		s.Answer(r, s.waitError(now, r, m.Cause))
		return
	}
	if i := slices.Index(s.releasers, r); i >= 0 {
		s.releasers = slices.Delete(s.releasers, i, i+1)
		cause := m.Cause
		if s.failures.Last != nil {
			cause = s.failures.Last
		}
		s.Fail(r, unconfirmed(cause))
		return
	}
	switch {
	case !s.extension.leave(r):
	case r.Do == wait.Acquire:
		s.Answer(r, s.waitError(now, r, m.Cause))
	default:
		s.Fail(r, m.Cause)
	}
}

// onFreed handles grants that this process has ended in Redis, by a force-release or by releasing permits by their ids. Their leases end here, too.
// If the reply to the acquire or pass that created such a grant is still in flight, that reply will be ignored.
func (s *State) onFreed(now time.Duration, m wait.Freed) {
	if s.phase == held && slices.Contains(m.Grants, s.grant.ID) {
		s.lose(now, m.Reason, false)
	}
	if !slices.Contains(m.Grants, s.pending.id) {
		return
	}
	if s.phase == passing { // the pass was executed
		s.tellReleasers(nil)
		s.endGrant(now, now)
	}
	s.disregard()
	s.abandonPending(now)
	s.retryAt = now
}

// lose ends the grant and notifies its holders. If a holder is releasing at this moment, the answer to its release reports the loss. If orphaned is
// true, Redis may still have the grant.
//
// The holders learn of the loss before the machine attempts a new grant. So nobody in this process gets the lock while an earlier lease on the lock
// is still valid.
func (s *State) lose(now time.Duration, reason protocol.LossReason, orphaned bool) {
	s.Emit(wait.Effect{Do: wait.DoDrop, Grant: &s.grant.Grant})
	if len(s.holds) > 0 { // a grant that lingered has no holds: its end is no loss to anybody, and is not reported
		lost := s.lostLease(now, reason)
		s.endHolds(protocol.ErrLeaseLost, reason)
		s.Emit(lost)
	}
	if orphaned {
		s.orphanGrant(now)
	}
	s.endGrant(now, 0)
	s.phase, s.demanded = free, false
	s.retryAt = now
}

// lostLease returns the effect that reports the loss of the grant. Several leases on the grant may be held or being released. The event's field Held
// counts from the start of the oldest of them.
func (s *State) lostLease(now time.Duration, reason protocol.LossReason) wait.Effect {
	since := now
	for _, h := range s.holds {
		since = min(since, h.Since)
	}
	for _, r := range s.releasers {
		since = min(since, r.Hold.Since)
	}
	return wait.Effect{Do: wait.DoEmit, Event: protocol.LeaseLost{
		Kind: s.Address.Kind.Name, Name: s.Address.Name, ID: s.grant.ID, Reason: reason, Held: now - since,
	}}
}

// endHolds ends all local leases on the grant. Lose returns false if the holder has just released its lease, and the release request has not reached
// onRelease yet. `claimed` counts such requests, because the actor must not stop or get another name before they arrive.
func (s *State) endHolds(err error, reason protocol.LossReason) {
	for _, h := range s.holds {
		switch {
		case h.Lose(err, reason):
			s.Emit(wait.Effect{Do: wait.DoLost, Hold: h})
		default:
			s.claimed++
		}
	}
	s.holds = nil
}

// onClose refuses the waiters. A closing actor ends the leases and releases the lock, and stops when nothing is left to do. An aborting
// actor stops at once; whatever it has in Redis expires.
func (s *State) onClose(now time.Duration, to wait.Stage) {
	if to <= s.Stage {
		return
	}
	s.Stage = to
	s.RefuseAll(protocol.ErrClosed)
	if to >= wait.Closing && s.phase == held {
		s.endHolds(protocol.ErrClosed, "")
	}
	if to >= wait.Closing {
		s.orphans.close()
	}
	if s.inflight == nil {
		s.retryAt = now
	}
	if to < wait.Aborting {
		return
	}
	for _, r := range s.releasers {
		s.Fail(r, unconfirmed(protocol.ErrClosed))
	}
	if s.grant != nil {
		s.Emit(wait.Effect{Do: wait.DoDrop, Grant: &s.grant.Grant})
		s.endGrant(now, now)
	}
	s.releasers, s.orphans.all, s.looking, s.pending, s.phase, s.inflight = nil, nil, nil, pendingGrant{}, free, nil
}

// Distrust starts over after a panic. The state may be wrong, even about which calls were sent, so the machine forgets the calls and asks Redis anew.
// The waiters stay in the queue, and the effects from before the panic are carried out.
//
// Every grant that may be in Redis becomes an orphan, and every holder learns that its lease has ended. That is safe no matter what the panic has
// broken. If only a forgotten call would have answered a request, Distrust answers the request with an error.
func (s *State) Distrust(now time.Duration, r *wait.Request) []wait.Effect {
	s.forget(r)
	for _, waiting := range s.releasers {
		s.Fail(waiting, unconfirmed(wait.ErrPanicked))
	}
	s.releasers, s.looking = nil, nil
	s.orphans.distrust()
	if s.phase == acquiring || s.phase == passing || s.pending.standing {
		s.disregard()
		s.orphans.add(now, s.pending.id, max(now, s.pending.duplicateUntil), s.pending.ttl)
	}
	if s.grant != nil {
		s.lose(now, protocol.LossPanicked, true)
	}
	s.pending, s.phase, s.inflight, s.retryAt = pendingGrant{}, free, nil, now+s.Policy.Backoff(3)
	s.AlarmAt = s.retryAt // the step at this instant does whatever is due
	s.Emit(wait.Effect{Do: wait.DoAlarm, At: s.AlarmAt})
	return s.TakeEffects()
}

// forget removes a request that the caller of Distrust answers. It does nothing if r is nil.
func (s *State) forget(r *wait.Request) {
	if r == nil {
		return
	}
	same := func(other *wait.Request) bool { return other == r }
	s.Queue.Remove(r)
	s.Unanswer(r)
	s.releasers = slices.DeleteFunc(s.releasers, same)
	if e := s.extension; e != nil {
		e.waiting = slices.DeleteFunc(e.waiting, same)
	}
}
