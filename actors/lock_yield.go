package actors

import "time"

// yield keeps this process out for a moment after its turn, so that others get theirs: the releaser would win again.
//
// Processes take turns without a list of them. Whoever releases is told how many others wait, and lets as many have a turn
// before it tries again: it counts the releases that it hears of. So the one that has waited longest is the first to try after
// a release, and every other one later by a slot for each that is ahead of it. Nothing depends on the count but the order: who
// is ahead may have gone, and then a slot passes in vain.
//
// Those who listen and never come are found out, see attendance. They keep their places in the line, because others may not have found
// out yet; but as soon as nobody else is ahead, there is nothing to wait for.
//
// Spinners, pollers and reconnecting waiters cannot be counted. For them there are gaps, see gaps.
type yield struct {
	until time.Duration // no attempt before, but for a try; 0: a try has ended it
	ahead int           // how many others are to have a turn before us
	fresh time.Duration // until then; later they have gone
	slot  time.Duration // what each of them is given to take it
	gapTo time.Duration // until then we stay out for those who are not counted
	heard int           // messages that came while a release was on its way: one is ours
	wins  uint8         // how often we won although somebody was ahead: then slots are too short
	good  uint8         // how often nobody was, since then
	echo  bool          // the next message is that of our own release

	listened bool // another contender of this process is subscribed

	attendance attendance
	gaps       gaps
}

const (
	slotMax = 5 * time.Millisecond // bounds a slot: it passes in vain when somebody only looks as if he waited
	winsMax = 10
	goodMax = 8 // after as many turns in which everybody made it, slots get shorter again
)

// yieldAfter decides how long to stay out after a confirmed release.
func (s *lockState) yieldAfter(now time.Duration, m *callDone) {
	y, others := s.yield, m.receivers
	y.echo = false
	if !s.address.Kind.TakesTurns() || m.receivers < 0 { // others share it still
		return
	}
	if s.listens() {
		others-- // our own subscription
		y.echo = m.receivers > 0 && y.heard == 0
	}
	y.ahead = max(others, 0)
	y.attendance.released(y.ahead)
	y.slot = min((now-m.sent)<<y.wins, s.policy.YieldMax)
	stay := y.wait(s.policy, y.slot)
	y.fresh = now + stay + 2*time.Duration(y.ahead)*max(now-s.turn.start, s.policy.HandoffFor)
	if y.gaps.released(s.policy, now, m.sent, stay > 0, y.ahead > 0) {
		y.gapTo = now + s.policy.Gap
		stay += s.policy.Gap
	}
	y.until = now + stay
	if y.ahead == 0 {
		y.nobody()
	}
}

// listens reports whether this process hears of its own releases.
func (s *lockState) listens() bool { return s.watch == subscribed || s.yield.listened }

// idlers are how many of those who are told of a release of ours want nothing, ourselves included.
func (s *lockState) idlers() int {
	idlers := s.yield.attendance.mere
	if s.listens() {
		idlers++
	}
	return idlers
}

// nobody says that there is nobody to wait for.
func (y *yield) nobody() { y.ahead, y.wins, y.good = 0, 0, 0 }

// wait is how long to leave the lock to those who are ahead.
func (y *yield) wait(p *Policy, slot time.Duration) time.Duration {
	if y.ahead <= y.attendance.mere {
		return 0
	}
	slot = min(slot, p.YieldMax/time.Duration(y.attendance.notified)) // all in line have one of their own, however many they are
	return time.Duration(y.ahead)*slot + p.Jitter(slot)
}

// waits reports whether it is the others' time now, of whom there are some.
func (y *yield) waits(now time.Duration) bool { return now < y.until && y.attendance.notified > 0 }

// rank is how many others are to have a turn before us.
func (y *yield) rank(now time.Duration) int {
	if now >= y.fresh {
		return 0
	}
	return y.ahead
}

// won says that we got the lock. When somebody is ahead who never makes it in his slot, slots get longer: he may be far away.
func (y *yield) won(now time.Duration) {
	if y.until == 0 {
		return // a try has waited for nobody
	}
	if y.rank(now) > y.attendance.mere {
		y.wins, y.good = min(y.wins+1, winsMax), 0
	} else if y.good++; y.good == goodMax {
		y.wins, y.good = max(y.wins, 1)-1, 0
	}
	y.attendance.conclude()
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
	if y.echo {
		y.echo = false
		releases--
	}
	if releases == 0 {
		return never
	}
	y.attendance.heard(releases)
	if now < y.gapTo { // who had the lock in a gap was in no line
		return never
	}
	y.ahead = max(y.rank(now)-releases, 0)
	y.until = now + y.wait(p, min(y.slot, slotMax))
	if y.gaps.heard(p, now) {
		y.gapTo = now + p.Gap
		y.until += p.Gap
	}
	return y.until
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

// released is told of our own release and reports whether a gap is due. waited: somebody else is to have his turn now. listened:
// somebody else was told.
func (g *gaps) released(p *Policy, now, sent time.Duration, waited, listened bool) bool {
	g.freed = (sent + now) / 2
	if due := g.newPeriod(p, now); waited {
		return due && g.begin(now)
	}
	if !g.due(p, now) {
		return false
	}
	often := g.open >= (now-g.since)/8          // then whoever looks now and then finds it free
	return g.begin(now) && (!often || listened) // who listens comes right after a release, or not at all
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
