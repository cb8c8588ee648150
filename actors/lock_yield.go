package actors

import "time"

// yield keeps this process out for a moment after its turn, so that others get theirs: the releaser would win again.
type yield struct {
	until time.Duration
	wins  int           // turns in a row that we won although others waited
	gapAt time.Duration // when the lock was last free for long enough to be seen by somebody who only polls
	freed time.Duration // when we last released it
}

// yieldAfter decides how long to stay out after a confirmed release.
func (s *lockState) yieldAfter(now time.Duration, m *callDone) {
	y := &s.yield
	y.freed = now
	others := m.receivers
	if s.watch == subscribed {
		others-- // our own subscription
	}
	if others <= 0 {
		y.wins = 0
	}
	switch {
	case others > 0:
		trip := now - m.sent
		stay := min(trip<<min(y.wins, 10), s.policy.YieldMax)
		y.until = now + stay + s.policy.Jitter(max(stay, 1))
		y.wins++
	case s.queue.len > 0 && now-y.gapAt >= s.policy.GapEvery:
		// Spinners, pollers and reconnecting waiters do not show as subscribers.
		y.until = now + s.policy.Gap
	default:
		y.until = 0
	}
}

// lost says that somebody else got the lock.
func (y *yield) lost() { y.wins, y.until = 0, 0 }

// noteGap is called before an attempt: was the lock free for as long as a gap?
func (y *yield) noteGap(now time.Duration, p *Policy) {
	if now-y.freed >= p.Gap {
		y.gapAt = now
	}
}
