package actors

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// watchState says whether the lock's channel is subscribed to.
type watchState uint8

const (
	unwatched watchState = iota
	subscribing
	subscribed
)

func (s *lockState) onAcquire(now time.Duration, r *Request) {
	switch {
	case s.closing:
		s.answer(r, s.refusal(protocol.ErrClosed))
	case s.reenters(r):
		s.reenter(now, r)
	case r.try && (s.queue.len > 0 || len(s.holds) > 0):
		s.answer(r, s.busyError(now))
	case s.queue.len >= s.policy.MaxWaiters:
		s.answer(r, s.refusal(protocol.ErrTooManyWaiters))
	default:
		if s.queue.len == 0 && s.phase == free {
			s.retryAt = 0 // what an earlier waiter waited for does not bind this one ...
			if !r.try {
				s.retryAt = s.yield.until // ... but others' turn does
			}
		}
		s.queue.push(r)
	}
}

// attempt asks Redis for a new grant, shaped after the first waiter. There is one contender per process and name.
func (s *lockState) attempt(now time.Duration) {
	s.trial = s.trialFor(s.queue.front())
	s.phase = acquiring
	s.yield.noteGap(now, s.policy)
	s.sendAcquire(now)
}

func (s *lockState) trialFor(r *Request) trial {
	t := trial{id: s.policy.NewID(), lease: r.lease}
	if t.lease == 0 {
		t.lease, t.watched = s.policy.Lease, true
	}
	return t
}

func (s *lockState) sendAcquire(now time.Duration) {
	s.woken = false
	head := s.queue.front()
	s.call(&lockCall{
		do: callAcquire, grant: s.trial.id, lease: s.trial.lease, deadline: now + Window(s.trial.lease),
		holder: head != nil && (head.try || head.bounded),
	})
}

// attemptAgain repeats an attempt whose outcome is unknown, or gives it up when nobody wants what it asks for.
func (s *lockState) attemptAgain(now time.Duration) {
	head := s.queue.front()
	if head == nil || (head.lease == 0) != s.trial.watched || (head.lease != 0 && head.lease != s.trial.lease) {
		s.abandonTrial(now)
		if head != nil {
			s.attempt(now)
		}
		return
	}
	s.sendAcquire(now)
}

// abandonTrial leaves a grant of unknown fate to be released in the background.
func (s *lockState) abandonTrial(now time.Duration) {
	s.haunt(now, s.trial.id, s.trial.stale, s.trial.lease)
	s.trial = trial{}
	s.phase = free
}

func (s *lockState) onAcquireDone(now time.Duration, m *callDone) {
	switch {
	case m.class == scripts.Done && m.acquired.Granted:
		s.onGranted(now, m)
	case m.class == scripts.Done:
		s.onBusy(now, m)
	default:
		s.onAttemptFailed(now, m)
	}
}

func (s *lockState) onGranted(now time.Duration, m *callDone) {
	deadline := deadlineOf(m.sent, m.call.lease)
	if deadline <= now {
		// The answer took longer than its own lease: what it grants is over already.
		s.trial.stale = max(s.trial.stale, now)
		s.abandonTrial(now)
		s.failed(now, fmt.Errorf("the grant came %v after it was asked for, longer than its lease", now-m.sent))
		return
	}
	s.failures = failures{}
	s.turn = turn{start: now}
	s.begin(deadline)
}

// begin makes the grant of the current trial the one that is held.
func (s *lockState) begin(deadline time.Duration) {
	s.grant = newGrant(s.address, s.self, s.trial, deadline)
	s.trial = trial{}
	s.phase, s.guarded = held, false
	s.emit(effect{do: doKeep, grant: s.grant})
}

// onBusy waits: for a message if the channel was subscribed to before the attempt, else for the subscription; and for a timer.
func (s *lockState) onBusy(now time.Duration, m *callDone) {
	s.phase, s.failures = free, failures{}
	s.yield.lost()
	ttl := m.acquired.TTL
	s.busy = busy{holder: m.acquired.Holder, until: now + max(ttl, 0)}
	for r := s.queue.front(); r != nil && r.try; r = s.queue.front() {
		s.queue.remove(r)
		s.answer(r, s.busyError(now))
	}
	if s.queue.len == 0 {
		return
	}
	if s.woken {
		s.retryAt = now
		return
	}
	wait := s.policy.PollCap
	if ttl >= 0 && ttl < wait {
		wait = ttl
	}
	s.retryAt = now + wait + s.policy.Jitter(wait/4+time.Millisecond)
	if s.watch == unwatched {
		s.watch = subscribing
		s.emit(effect{do: doWatch})
	}
}

// onAttemptFailed has no answer from Redis. Refused: nothing ran, so a new attempt is as good. Unknown: the same attempt is
// repeated until its fate is known. Either way waiters learn the cause when it lasts too long, and a try at once.
func (s *lockState) onAttemptFailed(now time.Duration, m *callDone) {
	if m.class == scripts.Unknown {
		s.trial.stale = max(s.trial.stale, m.call.deadline)
	}
	known := s.trial.stale == 0
	if m.class == scripts.Rejected {
		s.giveUpAttempt(now, known)
		s.refuseAll(scripts.Explain(m.err))
		return
	}
	s.failed(now, m.err)
	if _, late := scripts.LateBy(m.err); late && s.failures.count <= 3 {
		s.retryAt = now // the server's clock is known better now
	}
	if known {
		s.phase = free
	}
	if s.queue.len == 0 {
		s.giveUpAttempt(now, known)
	}
}

func (s *lockState) giveUpAttempt(now time.Duration, known bool) {
	if known {
		s.phase = free
	} else if s.phase == acquiring {
		s.abandonTrial(now)
	}
}

// failed notes an attempt without an answer, and refuses those who need not or cannot wait for the next.
func (s *lockState) failed(now time.Duration, err error) {
	if s.failures.count == 0 {
		s.failures.first = now
	}
	s.failures.count++
	s.failures.last = err
	s.retryAt = now + s.policy.backoff(s.failures.count)
	if now-s.failures.first >= s.policy.Patience {
		s.refuseAll(err)
		return
	}
	for r := s.queue.front(); r != nil && r.try; r = s.queue.front() {
		s.queue.remove(r)
		s.answer(r, s.refusal(err))
	}
}

func (s *lockState) refuseAll(err error) {
	for r := s.queue.front(); r != nil; r = s.queue.front() {
		s.queue.remove(r)
		s.answer(r, s.refusal(err))
	}
}

func (s *lockState) onChannelReady(now time.Duration) {
	if s.watch != unwatched {
		s.watch = subscribed
		s.wake(now)
	}
}

func (s *lockState) onChannelMessage(now time.Duration) { s.wake(now) }

// wake tries again, unless this process has just had its turn: then the others come first, and we try after that anyway.
func (s *lockState) wake(now time.Duration) {
	switch {
	case now < s.yield.until:
	case s.phase == free && s.failures.count == 0:
		s.retryAt = now
	case s.phase == acquiring:
		s.woken = true
	}
}

// settleWatch drops the channel some time after the last waiter has left.
func (s *lockState) settleWatch(now time.Duration) {
	switch {
	case s.watch == unwatched:
	case s.queue.len > 0:
		s.watchAt = now
	case s.closing || s.retiring || now >= s.watchAt+s.policy.Linger:
		s.watch = unwatched
		s.emit(effect{do: doUnwatch})
	}
}

// refusal names the lock.
func (s *lockState) refusal(cause error) error {
	return fmt.Errorf("holdfast: acquire %q: %w", s.address.Name, cause)
}

// busyError tells by whom the lock is held: by this process, or by whom Redis named last.
func (s *lockState) busyError(now time.Duration) error {
	e := &protocol.BusyError{Name: s.address.Name}
	switch {
	case s.phase == held:
		e.Holder, e.TTL = s.grant.id, max(0, s.grant.left(now))
	case s.busy.until > now:
		e.Holder, e.TTL = s.busy.holder, s.busy.until-now
	}
	return e
}

// waitError is the answer of a waiter whose waiting ended: by whom the lock was held, or why Redis could not say.
func (s *lockState) waitError(now time.Duration, cause error) error {
	err := s.busyError(now)
	if s.failures.last != nil && s.failures.count > 0 {
		err = fmt.Errorf("holdfast: acquire %q: %w: %w", s.address.Name, protocol.ErrNotAcquired, s.failures.last)
	}
	if cause == nil || errors.Is(cause, protocol.ErrNotAcquired) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
