package lock

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/turns"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// onAcquire grants a re-entry, refuses a try that would have to wait, or queues the request. advance decides what follows from the queue.
//
// Re-entries come before the limits: their owner has the lock, and may need the second hold to finish and release the first. A try is
// refused without a call if others in this process hold the lock or wait for it.
func (s *State) onAcquire(now time.Duration, r *wait.Request) {
	switch {
	case s.stage >= wait.Draining && !s.heldBy(r.Owner):
		s.fail(r, protocol.ErrClosed)
	case s.joins(r), s.address.Kind.Owned && s.heldBy(r.Owner): // r may share the grant, or its owner holds the lock in this process
		s.reenter(now, r)
	case r.Try && (s.queue.Len > 0 || len(s.holds) > 0):
		s.wantLook()
		s.answer(r, s.busyError(now, r))
	case s.queue.Len >= s.policy.MaxWaiters:
		s.fail(r, wait.TooMany(s.queue.Len))
	default:
		if s.member == nil {
			r.Came = now
		}
		s.queue.Push(r)
		if s.phase == free && s.queue.Len == 1 { // failures and refusals of earlier waiters do not count for this one
			s.failures, s.busy = wait.Failures{}, busy{}
			s.retryAt = s.startAt()
			if s.member != nil {
				s.hold(now)
			}
		}
	}
}

// startAt is the instant of a waiter's first attempt. A try does not wait until other processes have had their turns.
func (s *State) startAt() time.Duration {
	if head := s.queue.Front(); head != nil && head.Try {
		return 0
	}
	return s.turns.OpensAt()
}

// attempt asks Redis for a new grant with the lease that the first waiter wants. Only the first waiter competes in Redis: the others get the grant
// from it, or compete after it.
//
// A place in Redis' queue is kept for the next waiter if it wants the same kind of lease. Otherwise the place is given up, because a release that is
// in flight may grant that place the lock with the old lease (heir).
func (s *State) attempt(now time.Duration) {
	head := s.queue.Front()
	if s.pending.standing && head.Terms != s.pending.terms {
		s.abandonPending(now)
	}
	if !s.pending.standing {
		s.pending, s.demanded = s.newPending(head), false
	}
	s.phase = acquiring
	s.sendAcquire(now)
}

// newPending makes the grant to ask for. Its id is new, so a late copy of an earlier acquire can never be taken for this one. The exception is an
// id that the group has reserved: a writer that also reads uses the same number for both grants.
func (s *State) newPending(r *wait.Request) pendingGrant {
	t := pendingGrant{terms: r.Terms, lease: r.First(s.policy.Lease)}
	t.ttl = max(t.lease, r.AtLeast)
	if s.member != nil {
		t.plain, s.member.reserved = s.member.reserved, ""
	}
	if t.plain == "" {
		t.plain = s.policy.NewID()
	}
	t.id = s.address.Kind.GrantID(t.plain)
	return t
}

// sendAcquire sends an attempt, or a repeat of it. It forgets earlier wake-ups: this call finds out what they announced. A wake-up that
// comes while the call is in flight is kept in wokenFor, because Redis may have executed the call before the release.
func (s *State) sendAcquire(now time.Duration) {
	s.wokenFor = clock.Never
	s.turns.Tries(now)
	c := s.call(callAcquire)
	c.Acquires, c.grant, c.lease, c.standing = true, s.pending.id, s.pending.ttl, s.pending.standing
	if s.member == nil && s.policy.Counts && s.watch == wait.Subscribed && !s.turns.Placed() {
		c.channel = s.channel
	}
	head := s.queue.Front()
	if head != nil {
		head.Attempts++
		c.try = head.Try
		// A refusal names the holder if a BusyError, Group.tellHolder or turns.Refusal needs it.
		c.holder = head.Try || head.Bounded || s.address.Kind.Queued || s.watch == wait.Subscribed && s.address.Kind.TakesTurns()
	}
	c.Timing = s.failures.Waiting(s.policy, now, rpc.Window(s.pending.lease), head)
	if s.policy.AckReplicas > 0 { // replicas must acknowledge the grant, so the attempt gets more time
		c.Grace = s.policy.AckTimeout
	}
}

// attemptAgain repeats an attempt whose outcome is unknown, or abandons it when no waiter wants such a grant any more. The repeat has the
// same grant id, so if an earlier copy was executed, Redis confirms that grant instead of refusing a second one.
func (s *State) attemptAgain(now time.Duration) {
	head := s.queue.Front()
	if head == nil || head.Terms != s.pending.terms {
		s.abandonPending(now)
		return
	}
	s.sendAcquire(now)
}

// abandonPending gives up the pending grant. If Redis may have executed the attempt, or has given it a place in its queue, the grant is released
// in the background. If duplicateUntil is 0, every copy of the attempt has been answered or withdrawn, so Redis does not have the grant.
func (s *State) abandonPending(now time.Duration) {
	if s.pending.duplicateUntil > 0 || s.pending.standing {
		s.orphanFrom(now, s.pending.id, s.pending.duplicateUntil, s.pending.ttl).lasting = s.pending.standing
	}
	s.pending, s.phase = pendingGrant{}, free
}

// onInherited takes over a grant that a release of this process has created in Redis. The contender may have an acquire in flight, whose result
// is not needed any more. That acquire asks for the same grant, so its copies do no harm while the grant is held. After that, the grant is
// released again and again until duplicateUntil, when no copy can run any more.
func (s *State) onInherited(now time.Duration, m inherited) {
	if s.pending.id != m.id || s.phase != free && s.phase != acquiring {
		return // the grant was abandoned meanwhile, and is released in the background
	}
	s.disregard()
	s.pending.standing = false
	s.onGranted(now, &callDone{call: &lockCall{}, sent: m.sent})
}

// onPromoted ends the standby: the contender competes from now on as if no other contender of this process were ahead.
func (s *State) onPromoted(now time.Duration) {
	if s.standby = false; s.phase == free && s.queue.Len > 0 && s.failures.Count == 0 {
		s.retryAt = now
	}
}

// forgetPending drops a pending grant. A call that was sent at the instant sent showed that Redis does not have the grant. A delayed duplicate of
// the attempt could still create the grant, so it is released in the background until no duplicate can arrive.
func (s *State) forgetPending(now, sent time.Duration) {
	if s.pending.duplicateUntil > sent {
		s.orphanLater(now, s.pending.id, s.pending.duplicateUntil, s.pending.ttl)
	}
	s.pending, s.phase = pendingGrant{}, free
}

func (s *State) onAcquireDone(now time.Duration, m *callDone) {
	switch {
	case m.class == scripts.Done && m.acquired.Granted && m.unacked != nil:
		s.onUnacked(now, m)
	case m.class == scripts.Done && m.acquired.Granted:
		s.onGranted(now, m)
	case m.class == scripts.Done:
		s.onBusy(now, m)
	default:
		s.onAttemptFailed(now, m)
	}
}

// onUnacked undoes a grant that too few replicas have acknowledged: after a failover, another process could get the lock while the grant is still
// held here. All waiters of this contender are refused, because its next grant would not be acknowledged either. The other members of a Group
// learn that from their own attempts: each waiter of a fair lock is a member.
func (s *State) onUnacked(now time.Duration, m *callDone) {
	s.pending.duplicateUntil = max(s.pending.duplicateUntil, now)
	s.abandonPending(now)
	s.refuseAll(m.unacked)
}

// onGranted makes a granted attempt the held grant. The lease counts from the instant before the call was sent: Redis cannot have executed
// it earlier, so the deadline here is never later than the server's.
//
// A reply may take longer than the lease. Then the grant has expired here although Redis may still have it. It is released, and the attempt
// counts as failed.
func (s *State) onGranted(now time.Duration, m *callDone) {
	deadline := lease.Deadline(m.sent, s.pending.lease)
	if deadline <= now {
		s.pending.duplicateUntil = max(s.pending.duplicateUntil, now)
		s.abandonPending(now)
		s.failed(now, m, tooLate(now-m.sent))
		return
	}
	s.turn = turn{start: now}
	s.turns.Won(&s.policy.Policy, now, m.sent)
	s.begin(m.sent, m.acquired.Tokens)
}

// tooLate is the error for a grant whose reply took longer than its lease: the grant has expired already.
func tooLate(took time.Duration) error {
	return fmt.Errorf("the grant came %v after it was asked for, longer than its lease", took)
}

// begin makes the pending grant the held one. A call that was sent at the instant sent has confirmed it. The watchdog gets it in the same step.
// What was known about an earlier grant or holder no longer counts.
func (s *State) begin(sent time.Duration, tokens scripts.Tokens) {
	t := s.pending
	g := &grant{home: s, plain: t.plain, terms: t.terms, duplicateUntil: t.duplicateUntil, longest: t.ttl, tokens: tokens}
	g.Address, g.ID, g.Lease, g.Watched, g.Actor = s.address, t.id, t.terms.Length(s.policy.Lease), t.terms.Lease == 0, s.self
	g.Part = g // leads from the shared lease.Grant back to g, for the watchdog's messages
	if t.terms.AtMost > 0 {
		g.Most = sent + t.terms.AtMost
	}
	g.Begin(lease.Deadline(sent, t.lease))
	s.grant, s.pending, s.failures, s.busy, s.spins = g, pendingGrant{}, wait.Failures{}, busy{}, 0
	s.phase, s.guarded, s.unsure, s.extension = held, g.Final(), false, nil
	s.emit(wait.Effect{Do: wait.DoKeep, Grant: &g.Grant})
}

// onBusy handles a refusal: the lock is held elsewhere. If the channel was subscribed to before the attempt, the waiters wait for a release
// message. Otherwise they wait for the subscription, after which they try again. In both cases a timer limits the wait.
//
// A wake-up between the attempt and the subscription is not lost: the confirmation of the subscription leads to another attempt, and a message
// that came during the attempt is in wokenFor. The timer is for messages that are lost, or never sent: if a holder's process has died, its lease
// just expires.
func (s *State) onBusy(now time.Duration, m *callDone) {
	if m.acquired.Queued {
		s.pending.standing, s.phase = true, free
		s.member.first = m.acquired.First
		if m.acquired.Requeued {
			s.emit(wait.Effect{Do: wait.DoEmit, Event: protocol.QueueLost{Name: s.address.Name, ID: s.pending.id}})
		}
	} else {
		s.forgetPending(now, m.sent)
	}
	s.failures = wait.Failures{}
	holder, _, _ := strings.Cut(m.acquired.Holder, ":")
	s.turns.Refused(&s.policy.Policy, now, turns.Refusal{
		Sent: m.sent, Longest: s.policy.HandoffFor, Subscribers: m.acquired.Subscribers, Place: m.acquired.Place, Holder: holder,
	})
	ttl := m.acquired.TTL
	s.busy = busy{known: true, unset: m.acquired.NotSet, holder: m.acquired.Holder, until: now + max(ttl, 0)}
	// The refusal answers each try that was made before the call was sent. For a later try, Redis has to be asked again.
	for r := s.queue.Front(); r != nil && r.Try && r.Came <= m.sent && !s.excuses(now, r); r = s.queue.Front() {
		s.queue.Remove(r)
		s.answer(r, s.busyError(now, r))
	}
	switch head := s.queue.Front(); {
	case head == nil:
		return
	case head.Try && head.Came <= m.sent:
		s.retryAt = now + s.policy.Backoff(0)
		return
	case head.Try: // the try came while an earlier waiter's attempt was in flight: the lock may have been released since
		s.retryAt = now
		return
	}
	// Somebody released the lock while the attempt was in flight, so the refusal may be older than the release.
	if s.wokenFor != clock.Never {
		s.retryAt = max(s.wokenFor, now)
		return
	}
	pause := s.policy.PollCap
	if s.address.Kind.Spins {
		pause = s.nextSpin()
	}
	if s.standby {
		pause = min(max(pause, s.policy.Lease/3), s.policy.Lease/2) // short enough that other processes do not take this one for dead
	} else if s.pending.standing {
		pause = min(pause, s.policy.Lease/3) // short enough to keep the place in Redis' queue
	}
	if !s.address.Kind.Spins { // a pause between spins has its jitter already
		pause += s.policy.Jitter(pause/4 + time.Millisecond)
	}
	if ttl >= 0 {
		pause = s.upToExpiry(pause, ttl)
	}
	if m.acquired.Strange && !s.standby {
		pause = strangeMin + s.policy.Jitter(strangeMax-strangeMin) // the release of that other library sends no message
	}
	s.retryAt = now + pause
	s.listen()
}

// upToExpiry shortens a pause to end soon after the holder's lease, because nobody sends a message when a lease expires.
func (s *State) upToExpiry(pause, left time.Duration) time.Duration {
	if left < pause {
		pause = min(pause, left+s.policy.Jitter(min(left/4, expiryJitter)+time.Millisecond))
	}
	return pause
}

// The bounds of the pause between two attempts at a lock that another library holds.
const strangeMin, strangeMax = 50 * time.Millisecond, 250 * time.Millisecond

// expiryJitter is the time over which processes that wait for the end of the same lease spread their attempts.
const expiryJitter = 20 * time.Millisecond

// excuses reports whether a refused try is repeated because the lock's holder is an orphan of this process. To the user, that lock is free. The
// orphan is being released or has been released, and the attempt may have overtaken its release. Once the try has waited for as long as one call may
// take, it is refused all the same.
func (s *State) excuses(now time.Duration, r *wait.Request) bool {
	ours := s.frees(now, s.busy.holder)
	if s.member != nil {
		s.member.group.each(func(other *State) { ours = ours || other.frees(now, s.busy.holder) })
	}
	return ours && now < r.Came+rpc.Window(s.policy.Lease)
}

// nextSpin returns the pause of a spin lock's first waiter before its next attempt. The pause grows with each attempt up to the maximum; up
// to half of it is random.
func (s *State) nextSpin() time.Duration {
	b := s.queue.Front().Backoff
	pause := time.Duration(float64(b.Initial) * math.Pow(b.Multiplier, float64(s.spins)))
	if pause >= b.Max || pause <= 0 {
		pause = b.Max
	} else {
		s.spins++
	}
	return pause - s.policy.Jitter(pause/2)
}

// listen subscribes to the channel of the release, if the kind of lock has one. The first contender in Redis' queue also needs the channel
// on which releases by other kinds of lock are published (Kind.Others). A contender on standby does not subscribe, because the contender
// ahead of it does.
func (s *State) listen() {
	if s.standby || s.address.Kind.Channel == nil {
		return
	}
	if s.watch == wait.Unwatched {
		s.watch, s.channel = wait.Subscribing, s.address.Kind.Channel(s.address.Raw, s.pending.id)
		s.emit(wait.Effect{Do: wait.DoWatch, Channel: s.channel})
	}
	if s.member != nil && s.member.first && s.member.others == "" {
		s.member.others = s.address.Kind.Others(s.address.Raw)
		s.emit(wait.Effect{Do: wait.DoWatch, Channel: s.member.others})
	}
}

// onAttemptFailed handles an attempt without a reply. If the call was certainly not executed, the next attempt may ask for a new grant. If
// that is unknown, the same attempt is repeated until its outcome is known: if the next attempt asked for another grant, it could find the
// lock taken by the first one, which nobody here would hold.
//
// A try is refused at once, with the cause; other waiters are refused when Redis has been silent for too long.
func (s *State) onAttemptFailed(now time.Duration, m *callDone) {
	if m.class == scripts.Unknown {
		s.pending.duplicateUntil = max(s.pending.duplicateUntil, m.call.Deadline)
	}
	switch _, late := scripts.LateBy(m.err); {
	case m.class == scripts.Rejected:
		s.refuseAll(m.call.Explain(m.err))
	case late && s.failures.Count < wait.LateMax:
		s.failures.Add(now, &m.call.Call, m.err)
		s.retryAt = now // the reply has corrected the estimate of the server's clock, so the next attempt can succeed
	default:
		s.failed(now, m, m.err)
	}
	switch {
	case s.pending.standing:
		s.phase = free
	case s.pending.duplicateUntil == 0:
		s.pending, s.phase = pendingGrant{}, free
	}
}

// failed notes a call without a reply, and schedules the next one with back-off. It refuses tries, and also waiters if Redis has been silent
// for longer than their patience. A release is repeated even after its callers have been answered, because other processes wait for the
// lock.
func (s *State) failed(now time.Duration, m *callDone, err error) {
	s.failures.Add(now, &m.call.Call, err)
	s.retryAt = now + s.policy.Backoff(s.failures.Count)
	for r := s.queue.Front(); r != nil && (r.Try || s.failures.Outlast(now, r, s.policy.Patience)); r = s.queue.Front() {
		s.queue.Remove(r)
		s.fail(r, s.failures.Last)
	}
	if s.failures.Silent(now) >= s.policy.Patience {
		s.tellReleasers(unconfirmed(s.failures.Last))
	}
}

// refuseAll answers every waiter with an error.
func (s *State) refuseAll(err error) {
	for r := s.queue.Front(); r != nil; r = s.queue.Front() {
		s.queue.Remove(r)
		s.fail(r, err)
	}
}

// onChannelReady tries at once, because this process has not received the messages of releases before the subscription. After a reconnection it
// tries at a random instant soon, because all waiters of the process try then, and should not do so at the same time. An attempt that is due
// earlier is not put off.
func (s *State) onChannelReady(now time.Duration, m wait.ChannelReady) {
	if s.watch == wait.Unwatched {
		return
	}
	s.watch = wait.Subscribed
	s.turns.Joined(now)
	if now < s.turns.OpensAt() || s.address.Kind.Grants == scripts.GrantPerHolder { // the group says who tries
		return
	}
	at := now + s.policy.Spread(m.Among)
	if s.phase == free {
		at = min(at, max(s.retryAt, now))
	}
	s.wake(now, at)
}

// onChannelMessage decides when to try after a release message. If the kind takes turns, the process that has waited longest tries first
// (package turns). Otherwise all try at once.
func (s *State) onChannelMessage(now time.Duration, releases int) {
	if !s.address.Kind.TakesTurns() {
		s.wake(now, now)
		return
	}
	switch s.phase {
	case held, passing, releasing: // the message is of an earlier release, of this process's own, or of a force-release, which a renewal or a look notices
		s.turns.Overheard(releases)
	default:
		if at := s.turns.Hear(&s.policy.Policy, now, releases); at != clock.Never {
			s.wake(now, at)
		}
	}
}

// wake schedules the next attempt. During an attempt, wake only keeps the instant: the attempt may have been executed before or after the
// release, and its result decides. After failures, the back-off continues: a message from one connection does not prove that calls arrive.
func (s *State) wake(now, at time.Duration) {
	switch {
	case s.phase == acquiring:
		s.wokenFor = at
	case s.phase == free && s.failures.Count == 0:
		s.retryAt = at
	}
}

// advanceWatch cancels the subscription some time after the last waiter has left. The next waiter often comes soon, and then need not subscribe
// and try again.
func (s *State) advanceWatch(now time.Duration) {
	if s.queue.Len > 0 {
		s.watchAt = clock.Never
		return
	}
	s.watchAt = min(s.watchAt, now)
	if s.stage < wait.Draining && !s.retiring && now < s.watchAt+s.policy.KeepChannel {
		return
	}
	s.watch = wait.Unwatched
	s.emit(wait.Effect{Do: wait.DoUnwatch, Channel: s.channel})
	if s.member != nil && s.member.others != "" {
		s.emit(wait.Effect{Do: wait.DoUnwatch, Channel: s.member.others})
		s.member.others = ""
	}
}

// holder returns the grant with which this process holds the lock, here or in another member of the group; nil: the process does not hold
// it.
func (s *State) holder() *grant {
	if s.grant == nil && s.member != nil && s.member.group.holding > 0 {
		return s.member.group.known().grant
	}
	return s.grant
}

// busyError returns an error that names the holder of the lock: this process, or the holder that Redis named last.
func (s *State) busyError(now time.Duration, r *wait.Request) error {
	e := &protocol.BusyError{Name: r.Address.Name}
	if g := s.holder(); g != nil {
		e.Holder, e.TTL, e.Local = g.ID, max(0, g.Left(now)), true
		return e
	}
	if s.busy.unset {
		return r.Because(wait.NotSet(r))
	}
	e.Holder, e.TTL = s.busy.holder, max(0, s.busy.until-now)
	e.Local = strings.HasPrefix(e.Holder, s.policy.Runtime+":") // this process holds it by a lock of another kind
	return e
}

// reportSlow reports the waiters that have waited for SlowWait.
func (s *State) reportSlow(now time.Duration) {
	for r, ahead := s.queue.NextSlow(now, s.policy.SlowWait); r != nil; r, ahead = s.queue.NextSlow(now, s.policy.SlowWait) {
		s.emit(s.slow(now, r, s.ahead()+ahead))
	}
}

// ahead returns the number of requests that wait in the earlier members of a group.
func (s *State) ahead() (n int) {
	if s.member == nil {
		return 0
	}
	for m := s.member.prev; m != nil; m = m.prev {
		n += m.queue.Len
	}
	return n
}

// slow reports one waiter, with what is known of the lock's holder.
func (s *State) slow(now time.Duration, r *wait.Request, ahead int) wait.Effect {
	w := &protocol.Waiting{Kind: r.Address.Kind.Name, Name: r.Address.Name, Waited: now - r.Came, Holder: s.busy.holder, Ahead: ahead}
	if g := s.holder(); g != nil {
		w.Holder = g.ID
	}
	w.Local = strings.HasPrefix(w.Holder, s.policy.Runtime+":")
	return wait.Effect{Do: wait.DoReport, Request: r, Waiting: w}
}

// waitError is the answer to a waiter whose wait has ended. It names the failure of the last call, if there was one, and otherwise the lock's
// holder. The failure is newer than what is known about the holder.
func (s *State) waitError(now time.Duration, r *wait.Request, cause error) error {
	err := s.busyError(now, r)
	switch {
	case s.failures.Count > 0:
		err = r.Because(fmt.Errorf("%w: %w", protocol.ErrNotAcquired, s.failures.Last))
	case s.grant == nil && !s.busy.known:
		err = r.Because(fmt.Errorf("%w: %w", protocol.ErrNotAcquired, s.policy.Why(s.address.Raw)))
	}
	if cause == nil || errors.Is(cause, protocol.ErrNotAcquired) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
