package actors

import "time"

// yield keeps this process out for a moment after its turn, so that others get theirs: the releaser would win again.
//
// Processes take turns without a list of them. Whoever releases is told how many others wait, and lets as many have a turn
// before it tries again: it counts the releases that it hears of. So the one that has waited longest is the first to try after
// a release, and every other one later by a slot for each that is ahead of it. Nothing depends on the count but the order: who
// is ahead may have gone, and then a slot passes in vain.
//
// Spinners, pollers and reconnecting waiters cannot be counted. For them there are gaps, see gaps.
type yield struct {
	until time.Duration // no attempt before, but for a try; 0: a try has ended it
	ahead int           // how many others are to have a turn before us
	fresh time.Duration // until then; later they have gone
	slot  time.Duration // what each of them is given to take it
	gapTo time.Duration // until then we stay out for those who are not counted
	heard int           // messages that came while a release was on its way: one is ours
	wins  uint8         // how often we won although somebody was ahead, less how often nobody was: then slots are too short
	echo  bool          // the message of our own release has still to come

	listened bool // another contender of this process is subscribed

	gaps gaps
}

// slotMax bounds a slot: it passes in vain when somebody only looks as if he waited.
const slotMax = 5 * time.Millisecond

// yieldAfter decides how long to stay out after a confirmed release.
func (s *lockState) yieldAfter(now time.Duration, m *callDone) {
	if !s.address.Kind.TakesTurns() {
		return
	}
	y, others := s.yield, m.receivers
	y.echo = false
	if s.listens() {
		others-- // our own subscription
		y.echo = y.heard == 0
	}
	stay := time.Duration(0)
	if y.ahead = max(others, 0); y.ahead > 0 {
		y.slot = min((now-m.sent)<<y.wins, s.policy.YieldMax)
		y.fresh = now + 2*time.Duration(y.ahead)*max(now-s.turn.start, s.policy.HandoffFor)
		stay = min(time.Duration(y.ahead)*y.slot, s.policy.YieldMax) + s.policy.Jitter(y.slot)
	} else {
		y.nobody()
	}
	if y.gaps.released(s.policy, now, m.sent, y.ahead > 0) {
		y.gapTo = now + s.policy.Gap
		stay += s.policy.Gap
	}
	y.until = now + stay
}

// listens reports whether this process hears of its own releases.
func (s *lockState) listens() bool { return s.watch == subscribed || s.yield.listened }

// nobody says that nobody else waits.
func (y *yield) nobody() { y.ahead, y.wins = 0, 0 }

// rank is how many others are to have a turn before us.
func (y *yield) rank(now time.Duration) int {
	if now >= y.fresh {
		return 0
	}
	return y.ahead
}

// won says that we got the lock. When somebody is ahead who never makes it in his slot, slots get longer: he may be far away.
func (y *yield) won(now time.Duration) {
	switch {
	case y.rank(now) > 0:
		y.wins = min(y.wins+1, 10)
	case y.wins > 0:
		y.wins--
	}
}

// tries says that an attempt is made. One that does not wait ends the time in which this process stays out: from now on the next
// attempt may be long after that time, so no release may be missed any more.
func (y *yield) tries(now time.Duration) {
	if now < y.until {
		y.until, y.gapTo = 0, 0
	}
}

// hear takes news of releases and says when to try again; never: when it was to be anyway.
func (y *yield) hear(p *Policy, now time.Duration, releases int) time.Duration {
	switch {
	case now < y.gapTo: // who had the lock in a gap was in no line
		y.echo = false
		return never
	case y.echo && now < y.until:
		y.echo = false
		releases--
	}
	if releases <= 0 {
		return never
	}
	y.ahead = max(y.rank(now)-releases, 0)
	wait := time.Duration(0)
	if y.ahead > 0 {
		slot := min(y.slot, slotMax)
		wait = min(time.Duration(y.ahead)*slot, p.YieldMax) + p.Jitter(slot)
	}
	switch {
	case y.gaps.heard(p, now):
		y.gapTo = now + p.Gap
		y.until = y.gapTo + wait
		return y.until
	case y.ahead > 0 && now < y.until:
		return never
	}
	return now + wait
}

// gaps are the moments in which a lock that is wanted all the time is left free for those who only look now and then.
//
// A process alone makes one when there was none for GapEvery. Of several none can make one: the others would take the lock. So all
// who hear of releases stay out after the same one, the first in a new period of the server's clock. They need not agree about
// the clock to the millisecond: if the period may have begun before one release or before the next, both are the first.
type gaps struct {
	last  time.Duration // server time of the newest release that we know of
	since time.Duration // when the newest gap was
	freed time.Duration // when our own release was executed; 0: somebody else has had the lock since
	open  time.Duration // for how long in all the lock was free since the newest gap
}

// released is told of our own release and reports whether a gap is due.
func (g *gaps) released(p *Policy, now, sent time.Duration, others bool) bool {
	g.freed = (sent + now) / 2
	if due := g.newPeriod(p, now); others {
		return due && g.begin(now)
	}
	if !g.due(p, now) {
		return false
	}
	often := g.open >= (now-g.since)/8 // then whoever looks now and then finds it free
	return g.begin(now) && !often
}

// due reports whether a process that is alone should make one.
func (g *gaps) due(p *Policy, now time.Duration) bool { return now-g.since >= p.GapEvery }

// heard is told of a release by somebody else, and reports the same.
func (g *gaps) heard(p *Policy, now time.Duration) bool {
	g.freed = 0
	return g.newPeriod(p, now) && g.begin(now)
}

// taken is told of an acquire of ours: if the lock was free for as long before, that was a gap.
func (g *gaps) taken(p *Policy, now, sent time.Duration) {
	free := (sent+now)/2 - g.freed
	switch {
	case g.last == 0, g.freed != 0 && free >= p.Gap:
		g.last = p.ServerTime(now)
		g.begin(now)
	case g.freed != 0:
		g.open += free
	}
}

func (g *gaps) begin(now time.Duration) bool {
	g.since, g.open = now, 0
	return true
}

// newPeriod notes a release and reports that a period has begun since the one before.
func (g *gaps) newPeriod(p *Policy, now time.Duration) bool {
	last := g.last
	g.last = p.ServerTime(now)
	return last != 0 && (g.last+p.ClockError)/p.GapShared > (last-p.ClockError)/p.GapShared
}
