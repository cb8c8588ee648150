package actors

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// next decides what happens to a grant that no local holder has.
func (s *lockState) next(now time.Duration) {
	head := s.queue.front()
	switch {
	case head == nil || s.closing:
		s.release(now)
	case s.turn.served == 0 && s.fits(head):
		s.give(head)
	case s.turnOver(now) || !s.address.Kind.Handoff || !s.sound(now):
		s.release(now)
	case s.grant.watched && head.lease == 0:
		s.give(head)
	default:
		s.pass(now, head)
	}
}

// fits reports whether the grant is what this waiter asked for.
func (s *lockState) fits(r *Request) bool {
	if r.lease == 0 {
		return s.grant.watched
	}
	return !s.grant.watched && s.grant.lease == r.lease
}

func (s *lockState) turnOver(now time.Duration) bool {
	return s.turn.served >= s.policy.HandoffMax || now-s.turn.start >= s.policy.HandoffFor
}

// sound reports whether the grant may be handed on: no renewal failed, and more than a renewal interval is left.
func (s *lockState) sound(now time.Duration) bool {
	return !s.grant.suspect.Load() && s.grant.left(now) > s.grant.lease/3
}

// give makes a waiter the holder of the grant.
func (s *lockState) give(r *Request) {
	s.turn.served++
	s.queue.remove(r)
	s.hand(r)
	if s.queue.owners[r.owner] == 0 {
		return
	}
	for q := s.queue.front(); q != nil; { // the same owner may wait in several goroutines
		other := q
		q = q.next
		if other.owner == r.owner && other.lease == 0 {
			s.queue.remove(other)
			s.hand(other)
		}
	}
}

// hand delivers one lease on the current grant.
func (s *lockState) hand(r *Request) {
	h := r.hold
	h.grant, h.serial, h.owner, h.requester = s.grant, s.policy.Serial(), r.owner, r.requester
	s.holds = append(s.holds, h)
	s.answer(r, nil)
}

// reenters reports whether r's owner holds the lock in this process.
func (s *lockState) reenters(r *Request) bool {
	return !r.owner.IsZero() && s.phase == held && len(s.holds) > 0 && s.holds[0].owner == r.owner
}

// reenter grants at once; a fixed lease that asks for more than is left is prolonged in Redis first.
func (s *lockState) reenter(now time.Duration, r *Request) {
	if !s.grant.watched && r.lease > s.grant.left(now) {
		s.sendExtend(now, r, r.lease)
		return
	}
	s.hand(r)
}

func (s *lockState) onRelease(now time.Duration, r *Request) {
	h := s.holdOf(r)
	switch {
	case h == nil && r.hold != nil && s.claimed > 0:
		s.claimed-- // it ended here while the holder was releasing it
		s.answer(r, s.lateReleaseError())
	case h == nil:
		s.answer(r, fmt.Errorf("holdfast: release %q: %w", s.address.Name, protocol.ErrNotHeld))
	default:
		s.unhold(h)
		switch {
		case s.grant.left(now) <= 0:
			s.lose(now, "expired", true)
			s.answer(r, s.lostError())
		case len(s.holds) > 0:
			s.answer(r, nil)
		default:
			if s.next(now); s.phase == releasing {
				s.releasers = append(s.releasers, r)
			} else {
				s.answer(r, nil)
			}
		}
	}
}

// unhold takes a lease out of the grant.
func (s *lockState) unhold(h *Hold) {
	s.holds = slices.DeleteFunc(s.holds, func(other *Hold) bool { return other == h })
	if h.requester != nil {
		h.claim() // a goroutine has claimed its lease itself
		s.unbind(h.requester)
	}
}

// pass replaces the grant by one for the next waiter, in one call and without a wake-up.
func (s *lockState) pass(now time.Duration, head *Request) {
	s.emit(effect{do: doDrop, grant: s.grant})
	s.trial = s.trialFor(head)
	s.phase = passing
	s.sendPass(now)
}

func (s *lockState) sendPass(now time.Duration) {
	s.call(&lockCall{
		do: callPass, from: s.grant.id, grant: s.trial.id, lease: s.trial.lease,
		deadline: min(now+Window(s.trial.lease), s.grant.until()),
	})
}

// passAgain repeats a pass whose outcome is unknown while the old grant lasts; after that both may be left behind.
func (s *lockState) passAgain(now time.Duration) {
	if s.grant.left(now) > 0 {
		s.sendPass(now)
		return
	}
	s.haunt(now, s.grant.id, now, s.grant.lease)
	s.endGrant(now)
	s.abandonTrial(now)
	s.retryAt = now
}

func (s *lockState) onPassDone(now time.Duration, m *callDone) {
	deadline := deadlineOf(m.sent, m.call.lease)
	switch {
	case m.class == scripts.Done && m.held && deadline > now:
		s.endGrant(now)
		s.begin(deadline)
		if head := s.queue.front(); head != nil && s.fits(head) {
			s.give(head)
		}
	case m.class == scripts.Done && !m.held:
		s.emit(effect{do: doEmit, event: protocol.LeaseLost{Name: s.address.Name, ID: s.grant.id, Reason: "gone from Redis"}})
		s.endGrant(now)
		s.trial, s.phase, s.retryAt = trial{}, free, now
	case m.class == scripts.Rejected:
		s.trial = trial{}
		s.phase = held
		s.turn.start = now - s.policy.HandoffFor // ends the turn
	default:
		s.trial.stale = max(s.trial.stale, m.call.deadline, now)
		s.failures.count++
		s.retryAt = now + s.policy.backoff(s.failures.count)
	}
}

// release ends the turn: the lock is freed in Redis and whoever waits anywhere is woken.
func (s *lockState) release(now time.Duration) {
	s.emit(effect{do: doDrop, grant: s.grant})
	s.phase, s.unsure = releasing, false
	s.sendRelease(now)
}

func (s *lockState) sendRelease(now time.Duration) {
	s.call(&lockCall{do: callRelease, grant: s.grant.id, deadline: now + Window(s.grant.lease)})
}

// releaseAgain repeats a release that was not confirmed, until the lease is over on the server too.
func (s *lockState) releaseAgain(now time.Duration) {
	if s.grant.left(now)+margin(s.grant.lease) > 0 {
		s.sendRelease(now)
		return
	}
	s.released(now, s.unconfirmed(s.failures.last))
}

func (s *lockState) onReleaseDone(now time.Duration, m *callDone) {
	switch {
	case m.class == scripts.Done && (m.held || s.unsure):
		s.yieldAfter(now, m)
		s.released(now, nil)
	case m.class == scripts.Done:
		s.emit(effect{do: doEmit, event: protocol.LeaseLost{Name: s.address.Name, ID: s.grant.id, Reason: "gone from Redis"}})
		s.released(now, s.lostError())
	case m.class == scripts.Rejected:
		s.released(now, s.unconfirmed(scripts.Explain(m.err)))
	default:
		s.unsure = s.unsure || m.class == scripts.Unknown
		s.failures.count++
		s.failures.last = m.err
		s.retryAt = now + s.policy.backoff(s.failures.count)
	}
}

// released answers those who wait for the release and makes the lock free for this process too.
func (s *lockState) released(now time.Duration, err error) {
	for _, r := range s.releasers {
		s.answer(r, err)
	}
	clear(s.releasers)
	s.releasers = s.releasers[:0]
	s.endGrant(now)
	s.failures = failures{}
	s.phase = free
	s.retryAt = s.yield.until
}

// endGrant forgets the grant; its holders are gone. A late copy of its acquire could bring it back, so it is released again then.
func (s *lockState) endGrant(now time.Duration) {
	s.grant.over()
	if s.grant.stale > now {
		s.haunt(now, s.grant.id, s.grant.stale, s.grant.lease)
	}
	s.grant, s.guarded = nil, false
}

func (s *lockState) unconfirmed(cause error) error {
	return fmt.Errorf("holdfast: release %q: not confirmed, the lock comes free within its lease: %w", s.address.Name, cause)
}

// lateReleaseError is the answer to a release that arrives after its lease has ended here.
func (s *lockState) lateReleaseError() error {
	if s.closing {
		return nil
	}
	return s.lostError()
}

func (s *lockState) lostError() error {
	return fmt.Errorf("holdfast: lock %q: %w", s.address.Name, protocol.ErrLeaseLost)
}
