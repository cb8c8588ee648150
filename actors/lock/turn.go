package lock

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/turns"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// next decides what happens to a grant that no local holder has.
//
// A new grant goes to the waiter that it was acquired for, even if the turn is already over. An older grant is handed on to the next waiter under
// three conditions. The turn is not over, so that waiters of other processes also get the lock. The lease of the grant is sound. The grant's
// at-least time is over.
//
// Handing the grant on costs no call if neither the grant nor the next waiter has terms of its own (wait.Terms). If one of them has, and always for
// permits, a pass is needed, which is one call.
func (s *State) next(now time.Duration) {
	if s.extension != nil {
		s.endExtension(now) // the re-entries that wait for an extend belong to the last holder, and must not share the grant with the next holder
	}
	head := s.Queue.Front()
	switch {
	case head == nil && s.Policy.Linger > 0 && s.linger(now):
	case head == nil:
		s.release(now)
	case s.turn.served == 0 && head.Terms == s.grant.terms:
		s.give(now, head)
	case !s.lasts(now):
		s.release(now)
	case s.turnOver(now):
		s.endTurn(now, head)
	case s.Address.Kind.Grants != scripts.GrantPerHolder && !s.grant.terms.Own() && !head.Own():
		s.give(now, head)
	case s.Address.Kind.Pass == nil || s.Policy.AckReplicas > 0: // only an acquire can wait for replicas
		s.release(now)
	default:
		s.pass(now, head)
	}
}

// lasts reports whether the grant may have another local holder.
func (s *State) lasts(now time.Duration) bool {
	return s.Address.Kind.Handoff && s.grant.sound(now) && s.grant.Missing(now) <= 0
}

// passesOn reports whether the grant would be passed on to another waiter if its holder released it now.
func (s *State) passesOn(now time.Duration) bool {
	return s.phase == held && s.lasts(now) && !s.turnOver(now) && s.Policy.AckReplicas == 0
}

// turnOver reports whether other processes should have the lock now: the turn has served enough local holders, has lasted long enough, or
// has no fencing token left for another holder.
func (s *State) turnOver(now time.Duration) bool {
	if s.turn.spent || s.Address.Kind.Tokens && s.grant.tokens.First > s.grant.tokens.Last {
		return true
	}
	lingers := s.turn.lingerTo > 0 && !s.demanded // nobody else is known to want the lock
	return !lingers && (s.turn.served >= s.Policy.HandoffMax || now-s.turn.start >= s.Policy.HandoffFor/turnsIn(s.Address.Kind))
}

// turnsIn returns the number by which Policy.HandoffFor is divided for this kind. It is 3 if each holder has a grant of its own, as with permits.
// Such kinds leave no gaps for Redisson's clients, which take no turns. The shorter turns make up for the missing gaps: Redisson's clients get about
// as many permits as the processes of this library.
func turnsIn(kind *scripts.Kind) time.Duration {
	if kind.Grants == scripts.GrantPerHolder {
		return 3
	}
	return 1
}

// endTurn gives other processes the chance to acquire the lock, by a release or by a special pass. The script of that pass releases the lock if
// other processes wait. If none waits, it passes the lock on to the next local waiter, which saves a release and an acquire. The script decides
// by the number of subscribers, so the server must know all of them (Standalone).
//
// When a gap is due, the lock is released all the same: without gaps, clients that poll would never find it free.
func (s *State) endTurn(now time.Duration, head *wait.Request) {
	if !s.Address.Kind.PassEndsTurn || !s.Policy.Standalone || s.Policy.AckReplicas > 0 || s.Policy.HandoffMax == 1 || s.turns.GapDue(&s.Policy.Policy, now) {
		s.release(now)
		return
	}
	s.turn.ending = true
	s.pass(now, head)
}

// give makes a waiter the holder of the grant, together with the waiters behind it that may share the grant. Each call of give uses a new, larger
// fencing token, even if the grant in Redis stays the same.
func (s *State) give(now time.Duration, r *wait.Request) {
	s.turn.served++
	if s.Address.Kind.Tokens {
		s.grant.token = s.grant.tokens.First
		s.grant.tokens.First++
	}
	s.hand(now, r) // before it leaves the queue, so that a panic does not lose the request
	s.Queue.Remove(r)
	for q := s.Queue.Front(); q != nil && s.joins(q); q = s.Queue.Front() {
		s.turn.served++
		s.hand(now, q)
		s.Queue.Remove(q)
	}
	if s.Queue.Owners[r.Owner] == 0 {
		return
	}
	for q := s.Queue.Front(); q != nil; { // the same owner may be waiting in several goroutines
		other := q
		q = q.Next
		if other.Owner == r.Owner {
			s.reenter(now, other)
			s.Queue.Remove(other)
		}
	}
}

// hand gives a request its lease on the current grant. All leases on a grant share the grant's deadline, so one renewal extends all of them.
func (s *State) hand(now time.Duration, r *wait.Request) {
	h := r.Hold
	h.Grant, h.Serial, h.Owner, h.Token, h.Since = &s.grant.Grant, s.Policy.Serial(), r.Owner, s.grant.token, now
	h.Place = len(s.holds)
	s.holds = append(s.holds, h)
	if s.lingering {
		s.tellLinger()
	}
	s.grant.KeepFor(now, r.AtLeast)
	s.Answer(r, nil)
}

// joins reports whether r may hold the grant together with its present holders.
func (s *State) joins(r *wait.Request) bool {
	return s.Address.Kind.Grants == scripts.GrantPerProcess && s.phase == held && !s.grant.terms.Own() && !r.Own()
}

// reenter gives r a lease on the grant. If r asks for more time than Redis has granted, r first waits for an extend.
func (s *State) reenter(now time.Duration, r *wait.Request) {
	if s.grant.lacks(now, r) {
		e := s.extending()
		e.waiting = append(e.waiting, r)
		return
	}
	if s.joins(r) {
		s.turn.served++
	}
	s.hand(now, r)
}

// onRelease ends one lease. If it was the last lease on the grant, the method `next` decides what happens to the grant.
//
// The holder ends its lease itself (Claim) before it sends the release request. If the grant is lost before that request arrives here, endHolds finds
// a lease that has ended already. It then adds 1 to `claimed`, and onRelease subtracts 1 when the request arrives.
func (s *State) onRelease(now time.Duration, r *wait.Request) {
	if !s.has(r.Hold) {
		s.claimed--
		s.Fail(r, s.lateRelease())
		return
	}
	s.unhold(r.Hold)
	if len(s.holds) == 0 {
		s.next(now)
	}
	if s.phase == releasing || s.phase == passing { // answered when Redis has confirmed the end
		s.releasers = append(s.releasers, r)
		return
	}
	if len(s.holds) == 0 {
		s.tellLinger()
	}
	s.Answer(r, nil)
}

// unhold removes a lease from the grant. The newest lease takes its place in the list: very many readers may share a grant, and moving all later
// leases would be slow.
func (s *State) unhold(h *lease.Hold) {
	end := len(s.holds) - 1
	newest := s.holds[end]
	s.holds[h.Place], newest.Place = newest, h.Place
	s.holds[end] = nil
	s.holds = s.holds[:end]
}

// pass replaces the grant in Redis by a new one for the next local waiter, in one call and without notifying other processes. The phase is
// `passing` until the result arrives. During that phase, this process does not know which of the two grants Redis has.
//
// The watchdog drops the old grant first, so that no renewal extends its lease while the pass is repeated.
func (s *State) pass(now time.Duration, head *wait.Request) {
	s.Emit(wait.Effect{Do: wait.DoDrop, Grant: &s.grant.Grant})
	s.grant.vacant = s.lingering
	s.pending = s.newPending(head)
	s.phase = passing
	s.turns.Leaves()
	s.sendPass(now)
}

// sendPass sends a pass, or a repeat of it. If an earlier copy has replaced the old grant already, the script confirms the new one.
func (s *State) sendPass(now time.Duration) {
	c := s.call(callPass)
	c.terms.From, c.terms.Grant, c.terms.Lease = s.grant.ID, s.pending.id, s.pending.ttl
	c.terms.TurnEnds, c.terms.Idlers = s.turn.ending, s.idlers()
	if head := s.Queue.Front(); head != nil {
		head.Attempts++
	}
	c.Timing = rpc.Hasty(now, rpc.Window(min(s.pending.lease, s.grant.Left(now)))) // leaves time for a second attempt
}

// passAgain repeats a pass whose outcome is unknown, as long as the old grant lasts. After that, each of the two grants may be in Redis or
// not, so both become orphans.
func (s *State) passAgain(now time.Duration) {
	if s.grant.Left(now) > 0 {
		s.sendPass(now)
		return
	}
	s.abandonPass(now, s.failures.Last)
}

// abandonPass releases both grants of a pass in the background.
func (s *State) abandonPass(now time.Duration, cause error) {
	s.tellReleasers(unconfirmed(cause))
	s.orphanGrant(now)
	s.endGrant(now, now)
	s.abandonPending(now)
	s.retryAt = now
}

// onPassDone ends the phase `passing`, unless the outcome is still unknown.
//
//   - Redis has the new grant: it is held from now on, and the release of the old one is confirmed.
//   - Redis has the new grant, but its lease has expired here: the pass is repeated. The old grant is gone for certain.
//   - Redis has neither: this call or an earlier copy has released the lock for other processes, or the new grant of an earlier copy has
//     expired. This process pauses.
//   - Redis has neither, and no copy of the call can be the reason: the lock was lost.
//   - Redis refuses the pass: the old grant is released instead, in the background if it has expired here.
//   - The outcome is unknown: the pass is repeated.
func (s *State) onPassDone(now time.Duration, m *callDone) {
	deadline := lease.Deadline(m.sent, s.pending.lease)
	switch {
	case m.class == scripts.Done && m.held && deadline > now:
		s.tellReleasers(nil)
		s.endGrant(now, s.passedAt(m.sent))
		if m.call.terms.TurnEnds {
			s.turn = turn{start: now}
			s.turns.Nobody()
			if s.listens() {
				s.turns.ExpectEcho(now) // the call has published a release message
			}
		}
		s.turn.passed = true
		s.begin(m.sent, m.tokens)
		if head := s.Queue.Front(); head != nil && head.Terms == s.grant.terms {
			s.give(now, head)
		}
	case m.class == scripts.Done && m.held:
		s.tellReleasers(nil) // the old grant is gone, whatever happens to the new one
		s.unsure = true
		s.mayHavePassed(m.call.Asked, now)
		s.failed(now, m, tooLate(now-m.sent))
	// Redis has neither grant. The lock was lost, unless a copy of this call may be the reason.
	case m.class == scripts.Done && (m.receivers > 0 || s.unsure || s.pending.passedAndOver(now)):
		s.stayOut(now, m)
		s.endPass(now, m.sent, nil)
		s.retryAt = s.startAt()
	case m.class == scripts.Done:
		s.goneFromRedis(now)
		s.endPass(now, m.sent, lostBy(protocol.LossDeleted))
		s.retryAt = now
	case m.class == scripts.Rejected && s.grant.Left(now) <= 0:
		s.abandonPass(now, scripts.Explain(m.err))
	case m.class == scripts.Rejected:
		s.unsure = s.pending.duplicateUntil > 0
		s.abandonPending(now)
		s.release(now)
	default:
		if m.class == scripts.Unknown {
			s.mayHavePassed(m.call.Asked, m.call.Deadline)
			s.unsure = s.unsure || m.call.terms.TurnEnds
		}
		s.failed(now, m, m.err)
	}
}

// mayHavePassed notes that a copy of the pass may run, or may have run, at some instant between `from` and `until`.
func (s *State) mayHavePassed(from, until time.Duration) {
	if s.pending.duplicateUntil == 0 {
		s.pending.passed = from
	}
	s.pending.duplicateUntil = max(s.pending.duplicateUntil, until)
}

// passedAt is called after a successful pass. It returns the earliest instant at which Redis may have replaced the old grant. endGrant needs that
// instant: a delayed duplicate of the old grant's acquire may run later, and would bring the old grant back.
//
// Usually that instant is `sent`, when the successful call was sent. If the pass of a permit was repeated, an earlier copy may have replaced the old
// grant, so passedAt returns an instant before that copy. Other kinds need only `sent`, because their old grant cannot exist beside the new one.
func (s *State) passedAt(sent time.Duration) time.Duration {
	if s.Address.Kind.Grants == scripts.GrantPerHolder && s.pending.duplicateUntil > 0 {
		return min(sent, s.pending.passed)
	}
	return sent
}

// passedAndOver reports whether an earlier copy of the pass may have been executed so long ago that the new grant has expired since. If it returns
// true, Redis may have neither grant although nothing was lost. If it returns false, one of the two grants must be in Redis, unless somebody has
// deleted it.
func (p *pendingGrant) passedAndOver(now time.Duration) bool {
	return p.duplicateUntil > 0 && now >= lease.Deadline(p.passed, p.ttl)
}

// endPass drops both grants of a pass, because Redis has neither. Late copies of calls may bring one of the grants back, so endGrant and
// forgetPending release both in the background.
func (s *State) endPass(now, sent time.Duration, err error) {
	s.tellReleasers(err)
	s.endGrant(now, sent)
	s.forgetPending(now, sent)
	s.failures = wait.Failures{}
}

// release ends the turn: it releases the lock in Redis, which notifies the waiters of all processes. The watchdog drops the grant first, so
// that no renewal extends its lease while the release is repeated.
func (s *State) release(now time.Duration) {
	s.Emit(wait.Effect{Do: wait.DoDrop, Grant: &s.grant.Grant})
	s.phase, s.failures, s.demanded = releasing, wait.Failures{}, false
	s.grant.vacant = s.lingering
	s.turns.Leaves()
	s.sendRelease(now)
}

// sendRelease sends a release, or a repeat of it. The call goes before other calls of its lane, because other processes wait for the lock. Once the
// lease has expired on the server, nothing is sent, because there is nothing to release.
func (s *State) sendRelease(now time.Duration) {
	c := s.call(callRelease)
	c.terms.Grant, c.terms.Keep = s.grant.ID, s.grant.Missing(now)
	c.Timing = s.failures.Patient(now, rpc.Window(s.grant.Lease), s.Policy.Patience, 0)
	c.Patience = min(c.Patience, s.grant.Left(now)+lease.Margin(s.grant.longest))
	c.First = true
}

// releaseAgain repeats an unconfirmed release until the lease should have expired on the server as well. After that, the grant becomes an orphan,
// which is released in the background. This is needed because a renewal that was in flight may have extended the lease on the server.
func (s *State) releaseAgain(now time.Duration) {
	if s.grant.Left(now)+lease.Margin(s.grant.longest) > 0 {
		s.sendRelease(now)
		return
	}
	s.orphanGrant(now)
	s.released(now, now, unconfirmed(s.failures.Last))
}

// onReleaseDone ends the phase releasing, unless the outcome is unknown. If Redis does not have the grant, the holder had lost it before the release,
// and the release fails. There is one exception: if an earlier copy of this release may have removed the grant (unsure), the release counts as a
// success.
func (s *State) onReleaseDone(now time.Duration, m *callDone) {
	switch {
	case m.class == scripts.Done && (m.held || s.unsure):
		s.stayOut(now, m)
		if s.grant.lasting {
			s.orphans.releaseOnceMore(now, m)
		}
		s.released(now, m.sent, nil)
	case m.class == scripts.Done:
		s.goneFromRedis(now)
		s.released(now, m.sent, lostBy(protocol.LossDeleted))
	case m.class == scripts.Rejected:
		s.onReleaseRejected(now, m)
	default:
		s.unsure = s.unsure || m.class == scripts.Unknown
		s.failed(now, m, m.err)
	}
}

// onReleaseRejected handles a release that Redis refuses: the key holds something else, or the user lacks a right. A repeat would be
// refused as well, so the release ends with an error.
func (s *State) onReleaseRejected(now time.Duration, m *callDone) {
	err := scripts.Explain(m.err)
	if errors.Is(err, protocol.ErrForeignKey) {
		s.goneFromRedis(now)
		err = fmt.Errorf("%w: %w", protocol.ErrLeaseLost, err)
	} else {
		s.Leave(err)
		err = unconfirmed(err)
	}
	s.released(now, m.sent, err)
}

// lostBy returns the error for a lease that was lost for this reason.
func lostBy(reason protocol.LossReason) error {
	return fmt.Errorf("%w: %s", protocol.ErrLeaseLost, reason)
}

// goneFromRedis reports the loss of a grant that has not ended in this process, but that Redis no longer has. If the grant had no holder when its
// release or pass began (vacant), goneFromRedis reports nothing, because no holder has lost anything.
func (s *State) goneFromRedis(now time.Duration) {
	if s.grant.vacant {
		return
	}
	s.Emit(s.lostLease(now, protocol.LossDeleted))
}

// tellReleasers answers the requests that wait for the release, and empties their slice for reuse.
func (s *State) tellReleasers(err error) {
	for _, r := range s.releasers {
		s.Fail(r, err)
	}
	clear(s.releasers)
	s.releasers = s.releasers[:0]
}

// released answers the requests that wait for the release, and marks the lock as free in this process.
func (s *State) released(now, sent time.Duration, err error) {
	s.tellReleasers(err)
	s.endGrant(now, sent)
	s.failures = wait.Failures{}
	s.phase = free
	s.retryAt = s.startAt()
}

// endGrant drops the grant, which has no holders any more. A call sent at `sent` showed that Redis no longer has it. A delayed duplicate of its
// acquire could create it again, and then the lock would be taken although nobody holds it. So the grant is released in the background until no
// duplicate can arrive.
func (s *State) endGrant(now, sent time.Duration) {
	s.grant.End()
	if s.grant.duplicateUntil > sent {
		s.orphans.addLater(now, s.grant.ID, s.grant.duplicateUntil, s.grant.longest).least = s.grant.Least()
	}
	s.grant, s.guarded = nil, false
}

// orphanGrant makes the grant an orphan, because Redis may still have it. It clears duplicateUntil, so that endGrant, which is called next, does not
// make a second orphan.
func (s *State) orphanGrant(now time.Duration) {
	g := s.orphans.add(now, s.grant.ID, max(s.grant.duplicateUntil, now), s.grant.longest)
	g.lasting, g.least = g.lasting || s.grant.lasting, s.grant.Least()
	s.grant.duplicateUntil = 0
}

// unconfirmed returns the error of a release that may or may not have been executed.
func unconfirmed(cause error) error {
	return fmt.Errorf("not confirmed, the lock comes free within its lease: %w", cause)
}

// lateRelease is the answer to a release that arrives after its lease has ended here.
func (s *State) lateRelease() error {
	if s.Stage >= wait.Closing {
		return nil
	}
	return fmt.Errorf("%w: it ended before its release came", protocol.ErrLeaseLost)
}

// stayOut decides how long this process pauses after a confirmed release. Without a pause, the process that releases a lock would nearly always win
// it again, because the others learn of the release later.
func (s *State) stayOut(now time.Duration, m *callDone) {
	switch {
	case s.Address.Kind.TakesTurns() && m.receivers >= 0: // receivers is negative if no message was sent because others still hold the lock
		s.turns.After(&s.Policy.Policy, now, turns.Ended{
			Sent: m.sent, Began: s.turn.start, Longest: s.Policy.HandoffFor, Receivers: m.receivers + s.beside, Listens: s.listens(), Lingered: s.turn.lingerTo > 0,
			Crowds: s.member == nil && s.Policy.Standalone,
		})
	case s.Address.Kind.Queued && !m.inherits: // an heir has the lock already
		s.turns.Yield(&s.Policy.Policy, now, m.sent, m.call.terms.TurnEnds && m.receivers > 0)
	}
}

// listens reports whether this process receives the messages of its own releases.
func (s *State) listens() bool {
	return s.subscription.Watch == wait.Subscribed && s.row == 0 || s.turns.OthersListen
}

// idlers returns the number of subscribers that receive the messages of this process's releases but do not want the lock. If this process is
// subscribed, it is one of them, unless another of its actors waits for the same lock through another kind (beside). All actors of a process share
// one subscription.
func (s *State) idlers() int {
	idlers := s.turns.MereListeners()
	if s.listens() && s.beside == 0 {
		idlers++
	}
	return idlers
}
