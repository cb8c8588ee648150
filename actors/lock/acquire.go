package lock

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// onAcquire grants a re-entry, refuses a try that would have to wait, or queues the request. Later in the same step, the method `advance` makes an
// attempt for the queued requests if one is due.
//
// Re-entries are granted even while the runtime drains: the owner has the lock already, and may need the second hold to finish its work and release
// the first. A try is refused without an attempt in Redis if others in this process hold the lock or wait for it.
func (s *State) onAcquire(now time.Duration, r *wait.Request) {
	switch {
	case s.Stage >= wait.Draining && !s.heldBy(r.Owner):
		s.Fail(r, protocol.ErrClosed)
	case s.joins(r), s.Address.Kind.Owned && s.heldBy(r.Owner): // r may share the grant, or its owner holds the lock in this process
		s.reenter(now, r)
	case r.Try && (s.Queue.Len > 0 || len(s.holds) > 0):
		s.wantLook()
		s.Answer(r, s.busyError(now, r))
	case s.Queue.Len >= s.Policy.MaxWaiters:
		s.Fail(r, wait.TooMany(s.Queue.Len))
	default:
		if s.member == nil {
			r.Came = now
		}
		s.Queue.Push(r)
		if s.phase == free && s.Queue.Len == 1 { // r is the only waiter: failures and refusals of earlier waiters do not count for r
			s.failures, s.busy = wait.Failures{}, busy{}
			s.retryAt = s.startAt()
			if s.member != nil {
				s.hold(now)
			}
		}
	}
}

// startAt returns the instant of the first attempt for the first waiter: at once for a try, and after the turns of other processes for other
// requests.
func (s *State) startAt() time.Duration {
	if head := s.Queue.Front(); head != nil && head.Try {
		return 0
	}
	return s.turns.OpensAt()
}

// attempt asks Redis for a new grant with the lease that the first waiter wants. Only the first waiter competes in Redis: the other waiters get
// the grant from the first one, or compete after it.
//
// An earlier waiter may have left the pending grant in Redis' queue. If the first waiter wants the same terms, it takes over the pending grant and
// its place in the queue. If the first waiter wants other terms, the pending grant is abandoned: a release in flight may have named this grant as its
// heir, and Redis would then grant the lock with the old lease.
func (s *State) attempt(now time.Duration) {
	head := s.Queue.Front()
	if s.pending.standing && head.Terms != s.pending.terms {
		s.abandonPending(now)
	}
	if !s.pending.standing {
		s.pending, s.demanded = s.newPending(head), false
	}
	s.phase = acquiring
	s.sendAcquire(now)
}

// newPending makes the grant that the next acquire asks for. Normally the grant has a new id, so a late copy of an earlier acquire can never be
// mistaken for the next acquire. Only the first read grant of a writer has no new id: it takes the number of the write grant (member.reserved).
func (s *State) newPending(r *wait.Request) pendingGrant {
	t := pendingGrant{terms: r.Terms, lease: r.First(s.Policy.Lease)}
	t.ttl = max(t.lease, r.AtLeast)
	if s.member != nil {
		t.plain, s.member.reserved, s.member.joined = s.member.reserved, "", 0
		s.member.group.rejoins(s.member)
	}
	if t.plain == "" {
		t.plain = s.Policy.NewID()
	}
	t.id = s.Address.Kind.GrantID(t.plain)
	return t
}

// sendAcquire sends an attempt, or repeats one. It forgets earlier wake-ups, because this call sees the effect of the releases that they announced:
// Redis has already executed those releases. If a wake-up comes while the call is in flight, it is kept in wokenFor: Redis may have executed the call
// first, and the announced release after it.
func (s *State) sendAcquire(now time.Duration) {
	s.wokenFor, s.pending.inherited = clock.Never, 0
	s.turns.Tries(now)
	c := s.call(callAcquire)
	c.Acquires, c.terms.Grant, c.terms.Lease, c.terms.Standing = true, s.pending.id, s.pending.ttl, s.pending.standing
	head := s.Queue.Front()
	if (s.subscription.Watch != wait.Unwatched || s.crowded) && s.member == nil && s.Policy.Standalone {
		c.terms.Report = s.report(head)
	}
	if head != nil {
		head.Attempts++
		c.terms.Try = head.Try
	}
	c.Timing = s.failures.Waiting(s.Policy, now, rpc.Window(s.pending.lease), head)
	if s.Policy.AckReplicas > 0 { // replicas must acknowledge the grant, so the attempt gets more time
		c.Grace = s.Policy.AckTimeout
	}
}

// attemptAgain repeats an attempt whose outcome is unknown, or abandons it when no waiter wants such a grant any more. The repeat has the
// same grant id, so if an earlier copy was executed, Redis confirms that grant instead of refusing a second one.
func (s *State) attemptAgain(now time.Duration) {
	head := s.Queue.Front()
	if head == nil || head.Terms != s.pending.terms {
		s.abandonPending(now)
		return
	}
	s.sendAcquire(now)
}

// abandonPending gives up the pending grant. If the grant may hold the lock in Redis, or has a place in Redis' queue, it is released in the
// background. The grant cannot hold the lock if duplicateUntil is 0: every copy of the attempt has then been answered or withdrawn.
func (s *State) abandonPending(now time.Duration) {
	if s.pending.duplicateUntil > 0 || s.pending.standing {
		s.orphans.add(now, s.pending.id, s.pending.duplicateUntil, s.pending.ttl)
	}
	s.pending, s.phase = pendingGrant{}, free
}

// onInherited takes over a grant that a release of this process has created in Redis. If the contender has an acquire for the same grant in flight,
// it first waits for the result of that acquire. Without this wait, the new holder might release the lock before Redis executes the acquire, and the
// acquire would take the lock again.
//
// Redis may execute a force-release between the release and the acquire. The acquire then joins the queue, finds its place lost, or takes the lock
// again. In the first two cases, the contender sends another acquire. In the third case, Redis has the grant again, but the result of the
// force-release ends the grant in this process. Because duplicateUntil is set, the grant is then also released in the background.
func (s *State) onInherited(now time.Duration, m inherited) {
	if s.pending.id != m.id || s.phase != free && s.phase != acquiring {
		return // the grant was abandoned meanwhile, and is released in the background
	}
	s.pending.inherited, s.pending.began, s.wokenFor = m.sent, m.began, now
	if s.recall() {
		s.inherit(now)
	} else {
		s.pending.duplicateUntil = max(s.pending.duplicateUntil, now)
	}
}

func (s *State) inherit(now time.Duration) {
	s.pending.standing = false
	s.onGranted(now, &callDone{call: &lockCall{}, sent: s.pending.inherited})
}

// onPromoted ends the standby: the contender competes from now on as if no other contender of this process were ahead. If the contender has a place
// in Redis' queue and m.called is not set, it first subscribes. It sends its acquire when the subscription is confirmed (onChannelReady), or after
// confirmMax. An acquire before that would usually be refused, because waiters of other processes are ahead in the queue.
func (s *State) onPromoted(now time.Duration, m promoted) {
	s.standby = false
	if s.phase != free || s.Queue.Len == 0 || s.failures.Count > 0 {
		return
	}
	if s.retryAt = max(now, s.turns.OpensAt()); s.pending.standing && !m.called {
		s.listen()
		s.retryAt += confirmMax
	}
}

// confirmMax is how long a contender waits for the confirmation of its subscription before it sends its acquire anyway.
const confirmMax = 50 * time.Millisecond

// forgetPending drops a pending grant. A call sent at `sent` showed that Redis does not have the grant. A delayed duplicate of the attempt could
// still create the grant, so the grant is released in the background until no duplicate can arrive.
func (s *State) forgetPending(now, sent time.Duration) {
	if s.pending.duplicateUntil > sent {
		s.orphans.addLater(now, s.pending.id, s.pending.duplicateUntil, s.pending.ttl)
	}
	s.pending, s.phase = pendingGrant{}, free
}

func (s *State) onAcquireDone(now time.Duration, m *callDone) {
	if m.class == scripts.Unknown {
		s.pending.duplicateUntil = max(s.pending.duplicateUntil, m.call.Deadline)
	}
	switch {
	case m.class == scripts.Done && m.acquired.Granted && m.unacked != nil:
		s.onUnacked(now, m)
	case m.class == scripts.Done && m.acquired.Granted:
		s.onGranted(now, m)
	case s.pending.inherited > 0 && (m.class != scripts.Done || m.acquired.Queued && m.acquired.Joined == 0):
		s.inherit(now)
	case m.class == scripts.Done:
		s.onBusy(now, m)
	default:
		s.onAttemptFailed(now, m)
	}
}

// onUnacked undoes a grant that too few replicas have acknowledged: after a failover, another process could get the lock while this process still
// holds the grant. All waiters of this contender are refused, because its next grant would not be acknowledged either. The waiters of other members
// of a Group are not refused here: the attempts of those members show whether replicas acknowledge.
func (s *State) onUnacked(now time.Duration, m *callDone) {
	s.pending.duplicateUntil = max(s.pending.duplicateUntil, now)
	s.abandonPending(now)
	s.RefuseAll(m.unacked)
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
	if s.pending.inherited > 0 {
		s.turn.start = s.pending.began
	}
	s.turns.Won(&s.Policy.Policy, now, m.sent)
	s.begin(m.sent, m.acquired.Tokens)
}

// tooLate is the error for a grant whose reply took longer than its lease: the grant has expired already.
func tooLate(took time.Duration) error {
	return fmt.Errorf("the grant came %v after it was asked for, longer than its lease", took)
}

// begin makes the pending grant the held one. A call sent at `sent` has confirmed it. The watchdog gets the grant in the same step. What was known
// about an earlier grant or holder no longer counts.
func (s *State) begin(sent time.Duration, tokens scripts.Tokens) {
	t := s.pending
	g := &grant{state: s, plain: t.plain, terms: t.terms, duplicateUntil: t.duplicateUntil, longest: t.ttl, tokens: tokens}
	g.Address, g.ID, g.Lease, g.Watched, g.Actor = s.Address, t.id, t.terms.Length(s.Policy.Lease), t.terms.Lease == 0, s.self
	g.Part = g // leads from the shared lease.Grant back to g, for the watchdog's messages
	if t.terms.AtMost > 0 {
		g.Most = sent + t.terms.AtMost
	}
	g.Begin(lease.Deadline(sent, t.lease))
	s.grant, s.pending, s.failures, s.busy, s.spins = g, pendingGrant{}, wait.Failures{}, busy{}, 0
	s.phase, s.guarded, s.unsure, s.extension = held, g.Final(), false, nil
	s.Emit(wait.Effect{Do: wait.DoKeep, Grant: &g.Grant})
}

// onAttemptFailed handles an attempt that failed. If the call was certainly not executed, the next attempt may ask for a new grant. If the call may
// have been executed, its grant may have the lock in Redis. So the same attempt is repeated until its outcome is known. Redis would refuse an attempt
// for another grant, because of a grant that nobody in this process holds.
//
// If Redis has rejected the attempt, every waiter is refused. If the attempt arrived too late, it is repeated at once, a few times at most. After any
// other failure, tries are refused at once, with the cause, and the other waiters are refused when Redis has been silent for too long.
func (s *State) onAttemptFailed(now time.Duration, m *callDone) {
	switch _, late := scripts.LateBy(m.err); {
	case m.class == scripts.Rejected:
		s.RefuseAll(m.call.Explain(m.err))
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

// failed notes a call that failed or was answered too late, and schedules the next one with back-off. It refuses tries at once, and other waiters
// when Redis has not answered for policy.Patience while they waited. After such a silence, it also answers the callers of a release with an error.
// The release is still repeated, because other processes wait for the lock.
func (s *State) failed(now time.Duration, m *callDone, err error) {
	s.failures.Add(now, &m.call.Call, err)
	s.retryAt = now + s.Policy.Backoff(s.failures.Count)
	for r := s.Queue.Front(); r != nil && (r.Try || s.failures.Silent(now, r.Came) >= s.Policy.Patience); r = s.Queue.Front() {
		s.Queue.Remove(r)
		s.Fail(r, s.failures.Last)
	}
	if s.failures.Silent(now, 0) >= s.Policy.Patience {
		s.tellReleasers(unconfirmed(s.failures.Last))
	}
}
