package lock

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// orphan is a grant that may exist in Redis although no local request wants it. This process releases it repeatedly, until it certainly no longer
// exists or its lease has expired. No later grant can be released by mistake, because an id is never used twice.
//
// One release is not enough: if a network or a server has delayed the acquire, the release may reach Redis first. So releases are repeated until one
// has been sent after duplicateUntil. The earlier releases are useful nevertheless: they often free the lock sooner.
type orphan struct {
	id             string
	duplicateUntil time.Duration // a delayed duplicate of its acquire may run until this instant, so an earlier release is not enough
	until          time.Duration // when its lease has certainly expired on the server
	next           time.Duration
	inflight       bool
	releases       int           // number of releases that were executed before duplicateUntil
	failures       int           // number of failed releases
	lasting        bool          // must be released even after its lease: it may be in Redis' queue, or other grants of its owner keep the key alive
	least          time.Duration // end of its at-least time: the lock stays taken until then
	nobody         bool          // a second release (see freeLater): the grant was released before, and only its at-least time keeps the lock taken
}

// orphanFrom makes a grant an orphan, which is released in the background. The first release is sent at the instant `from`. The parameter `length` is
// the lease that Redis was asked for.
func (s *State) orphanFrom(from time.Duration, id string, duplicateUntil, length time.Duration) *orphan {
	s.orphans = append(s.orphans, orphan{
		id: id, duplicateUntil: duplicateUntil, next: from, until: max(from, duplicateUntil) + length + lease.Margin(length),
		lasting: s.address.Kind.Queued,
	})
	return &s.orphans[len(s.orphans)-1]
}

// frees reports whether the lock is about to be free because the grant `id` is being released in the background. While the grant's at-least time
// lasts, frees returns false. If `id` is the last grant that was released in the background, frees returns true: a reply that names this grant as the
// holder is older than its release.
func (s *State) frees(now time.Duration, id string) bool {
	return id != "" && id == s.freed || slices.ContainsFunc(s.orphans, func(g orphan) bool { return g.id == id && g.least <= now })
}

// hasOrphan reports whether a grant is being released in the background.
func (s *State) hasOrphan(id string) bool {
	return slices.ContainsFunc(s.orphans, func(g orphan) bool { return g.id == id })
}

// orphanLater makes a grant an orphan although Redis does not have the grant now: a delayed duplicate of its acquire may still create it. The first
// release waits a little, because it would find nothing now.
func (s *State) orphanLater(now time.Duration, id string, duplicateUntil, lease time.Duration) *orphan {
	return s.orphanFrom(min(now+s.policy.OrphanPause(0), max(now, duplicateUntil)), id, duplicateUntil, lease)
}

// releaseOrphans sends the releases that are due. These go before other calls, because an orphan keeps everybody from the lock.
func (s *State) releaseOrphans(now time.Duration) {
	for i := range s.orphans {
		g := &s.orphans[i]
		if g.inflight || now < g.next {
			continue
		}
		g.inflight = true
		c := &lockCall{do: callOrphan, address: s.address, terms: scripts.Terms{Grant: g.id, Keep: max(g.least-now, 0)}}
		c.Timing = rpc.Patient(now, rpc.Window(s.policy.Lease), min(s.policy.Patience, max(g.until-now, s.policy.ProbeMax)))
		c.First = true
		s.emit(wait.Effect{Do: wait.DoCall, Call: c})
	}
}

// onOrphanDone ends an orphan, or schedules its next release. The orphan ends if Redis has executed a release that was sent after the last instant at
// which a copy of the acquire could run. It also ends if its lease has expired on the server, or if Redis refuses a release, because Redis would
// refuse the next one as well.
//
// A lasting orphan does not end with its lease: it may have a place in Redis' queue, or other grants of its owner may keep the key alive. So its
// release is repeated until Redis confirms it, or until the runtime closes.
func (s *State) onOrphanDone(now time.Duration, m *callDone) {
	i := slices.IndexFunc(s.orphans, func(g orphan) bool { return g.id == m.call.terms.Grant })
	if i < 0 {
		return
	}
	g := &s.orphans[i]
	g.inflight = false
	switch {
	case m.class == scripts.Rejected, now > g.until && (!g.lasting || s.stage >= wait.Closing), m.class == scripts.Done && m.sent >= g.duplicateUntil:
		lasting := g.lasting
		s.orphans = slices.Delete(s.orphans, i, i+1)
		if err := scripts.Explain(m.err); m.class == scripts.Rejected && !errors.Is(err, protocol.ErrForeignKey) {
			s.leave(err)
		}
		if lasting {
			s.freeLater(now, m)
		}
		if m.class == scripts.Done && m.call.terms.Keep == 0 {
			s.remembers().freed = m.call.terms.Grant
		}
	case m.class == scripts.Done:
		g.next = min(g.duplicateUntil, now+s.policy.OrphanPause(g.releases))
		g.releases++
	default:
		g.failures++
		g.next = now + s.policy.Backoff(g.failures)
	}
}

// remembers returns the state that keeps the id of a released orphan in its field `freed`. In a group this state is group.common, because the
// orphan's own member may leave the group when the orphan ends.
func (s *State) remembers() *State {
	if s.member != nil {
		return &s.member.group.common
	}
	return s
}

// freeLater schedules a second release of a lasting orphan if the first release came before the end of the grant's at-least time, and so did not free
// the lock. The second release is sent when the at-least time ends. It is needed because other grants of the owner may keep the key alive. Without
// such grants, the key expires by itself.
func (s *State) freeLater(now time.Duration, m *callDone) {
	if m.call.terms.Keep > 0 && s.stage < wait.Closing {
		end := now + m.call.terms.Keep
		g := s.orphanFrom(end, scripts.Nobody(m.call.terms.Grant), 0, 0)
		g.lasting, g.least, g.nobody = true, end, true
	}
}

// onCancel ends the wait of a request that has not been answered yet. A call that was sent for the request continues. If that call gets a grant, the
// grant is given to another waiter, or released. If the request was answered meanwhile, none of the lists contains it, and the cancel has no effect.
func (s *State) onCancel(now time.Duration, m wait.CancelRequest) {
	r := m.Request
	if s.queue.Remove(r) {
		s.answer(r, s.waitError(now, r, m.Cause))
		return
	}
	if i := slices.Index(s.releasers, r); i >= 0 {
		s.releasers = slices.Delete(s.releasers, i, i+1)
		cause := m.Cause
		if s.failures.Last != nil {
			cause = s.failures.Last
		}
		s.fail(r, unconfirmed(cause))
		return
	}
	switch {
	case !s.leaveExtension(r):
	case r.Do == wait.Acquire:
		s.answer(r, s.waitError(now, r, m.Cause))
	default:
		s.fail(r, m.Cause)
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
	s.emit(wait.Effect{Do: wait.DoDrop, Grant: &s.grant.Grant})
	if len(s.holds) > 0 { // a grant that lingered has no holds: its end is no loss to anybody, and is not reported
		lost := s.lostLease(now, reason)
		s.endHolds(protocol.ErrLeaseLost, reason)
		s.emit(lost)
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
		Kind: s.address.Kind.Name, Name: s.address.Name, ID: s.grant.ID, Reason: reason, Held: now - since,
	}}
}

// endHolds ends all local leases on the grant. Lose returns false if the holder has just released its lease, and the release request has not reached
// onRelease yet. `claimed` counts such requests, because the actor must not stop before they arrive.
func (s *State) endHolds(err error, reason protocol.LossReason) {
	for _, h := range s.holds {
		switch {
		case h.Lose(err, reason):
			s.emit(wait.Effect{Do: wait.DoLost, Hold: h})
		default:
			s.claimed++
		}
	}
	s.holds = nil
}

// onClose refuses the waiters. A closing actor ends the leases and releases the lock, and stops when nothing is left to do. An aborting
// actor stops at once; whatever it has in Redis expires.
func (s *State) onClose(now time.Duration, to wait.Stage) {
	if to <= s.stage {
		return
	}
	s.stage = to
	s.refuseAll(protocol.ErrClosed)
	if to >= wait.Closing && s.phase == held {
		s.endHolds(protocol.ErrClosed, "")
	}
	if to >= wait.Closing { // drop the releases that wait for the end of an at-least time
		s.orphans = slices.DeleteFunc(s.orphans, func(g orphan) bool { return g.nobody })
	}
	if s.inflight == nil {
		s.retryAt = now
	}
	if to < wait.Aborting {
		return
	}
	for _, r := range s.releasers {
		s.fail(r, unconfirmed(protocol.ErrClosed))
	}
	if s.grant != nil {
		s.emit(wait.Effect{Do: wait.DoDrop, Grant: &s.grant.Grant})
		s.endGrant(now, now)
	}
	s.releasers, s.orphans, s.looking, s.pending, s.phase, s.inflight = nil, nil, nil, pendingGrant{}, free, nil
}

// Distrust starts over after a panic. The state may be wrong, even about which calls were sent, so the machine forgets the calls and asks Redis anew.
// The waiters stay in the queue, and the effects from before the panic are carried out.
//
// Every grant that may be in Redis becomes an orphan, and every holder learns that its lease has ended. That is safe no matter what the panic has
// broken. If only a forgotten call would have answered a request, Distrust answers the request with an error.
func (s *State) Distrust(now time.Duration) []wait.Effect {
	for _, r := range s.releasers {
		s.fail(r, unconfirmed(wait.ErrPanicked))
	}
	s.releasers, s.looking = nil, nil
	for i := range s.orphans {
		s.orphans[i].inflight = false
	}
	if s.phase == acquiring || s.phase == passing || s.pending.standing {
		s.disregard()
		s.orphanFrom(now, s.pending.id, max(now, s.pending.duplicateUntil), s.pending.ttl)
	}
	if s.grant != nil {
		s.lose(now, protocol.LossPanicked, true)
	}
	s.pending, s.phase, s.inflight, s.retryAt = pendingGrant{}, free, nil, now+s.policy.Backoff(3)
	s.alarmAt = s.retryAt // the step at this instant does whatever is due
	s.emit(wait.Effect{Do: wait.DoAlarm, At: s.alarmAt})
	return s.takeEffects()
}

// Forget removes a request that was answered elsewhere. After a panic, the shell itself answers the request that was being handled.
func (s *State) Forget(r *wait.Request) {
	same := func(other *wait.Request) bool { return other == r }
	s.queue.Remove(r)
	s.effects = slices.DeleteFunc(s.effects, func(e wait.Effect) bool { return e.Do == wait.DoAnswer && e.Request == r })
	s.releasers = slices.DeleteFunc(s.releasers, same)
	if e := s.extension; e != nil {
		e.waiting = slices.DeleteFunc(e.waiting, same)
	}
}
