package turns

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// Turns keeps this process out for a moment after its turn, so that others get theirs: the releaser would win again.
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
type Turns struct {
	until time.Duration // no attempt before, but for a try; 0: a try has ended it
	ahead int           // how many others are to have a turn before us
	fresh time.Duration // until then; later they have gone
	slot  time.Duration // what each of them is given to take it
	gapTo time.Duration // until then we stay out for those who are not counted
	heard int           // what came while we had the lock, or since its release is in flight: messages and subscriptions
	wins  uint8         // how often we won although somebody was ahead: then slots are too short
	good  uint8         // how often nobody was, since then

	echoes int           // messages of our own releases that are still to come
	echoTo time.Duration // then they are not expected any more

	others bool // another contender of this process is subscribed

	attendance attendance
	gaps       gaps
}

const (
	slotMax = 5 * time.Millisecond // bounds a slot: it passes in vain when somebody only looks as if he waited
	winsMax = 10
	goodMax = 8 // after as many turns in which everybody made it, slots get shorter again
)

// Ended is a turn of ours that has ended: its release was sent, and confirmed by receivers.
type Ended struct {
	Sent      time.Duration
	Began     time.Duration // the turn
	Longest   time.Duration // it might have lasted
	Receivers int           // of the release's message; as many as wait, and we if we listen
	Listens   bool          // we do
}

// After decides how long to stay out after a confirmed release.
func (y *Turns) After(p *Policy, now time.Duration, t Ended) {
	others := t.Receivers
	if t.Listens {
		others-- // our own subscription
		if t.Receivers > 0 {
			y.ExpectEcho(p, now)
		}
	}
	y.ahead = max(others, 0)
	y.attendance.released(y.ahead)
	y.slot = min((now-t.Sent)<<y.wins, p.YieldMax)
	stay := y.wait(p, y.slot)
	y.gapTo = now // a gap that began while our acquire was in flight has ended with our turn
	y.fresh = now + stay + 2*time.Duration(y.ahead)*max(now-t.Began, t.Longest)
	if y.gaps.released(p, now, t.Sent, stay > 0, y.ahead > 0) {
		y.gapTo = now + p.Gap
		stay += p.Gap
	}
	y.until = now + stay
	if y.ahead == 0 {
		y.Nobody()
	}
}

// Refused is told that somebody else has the lock.
func (y *Turns) Refused() { y.attendance.taken = true }

// Waited is told that somebody here waits while it is the others' time.
func (y *Turns) Waited() { y.attendance.waited = true }

// OpensAt is when an attempt may be made; 0: at once.
func (y *Turns) OpensAt() time.Duration { return y.until }

// GapDue reports whether a process that is alone should leave the lock free for a moment.
func (y *Turns) GapDue(p *Policy, now time.Duration) bool { return y.gaps.due(p, now) }

// SetOthersListen says whether another contender of this process is subscribed.
func (y *Turns) SetOthersListen(others bool) { y.others = others }

// OthersListen reports what SetOthersListen said last.
func (y *Turns) OthersListen() bool { return y.others }

// MereListeners is how many subscribers are taken for mere listeners.
func (y *Turns) MereListeners() int { return y.attendance.mere }

// Overheard takes messages that came while we had the lock, or since its release is in flight.
func (y *Turns) Overheard(releases int) { y.heard += releases }

// Nobody says that there is nobody to wait for.
func (y *Turns) Nobody() { y.ahead, y.wins, y.good = 0, 0, 0 }

// wait is how long to leave the lock to those who are ahead.
func (y *Turns) wait(p *Policy, slot time.Duration) time.Duration {
	if y.ahead <= y.attendance.mere {
		return 0
	}
	slot = min(slot, p.YieldMax/time.Duration(y.attendance.notified)) // all in line have one of their own, however many they are
	return time.Duration(y.ahead)*slot + p.Jitter(slot)
}

// Waits reports whether it is the others' time now, of whom there are some.
func (y *Turns) Waits(now time.Duration) bool { return now < y.until && y.attendance.notified > 0 }

// rank is how many others are to have a turn before us.
func (y *Turns) rank(now time.Duration) int {
	if now >= y.fresh {
		return 0
	}
	return y.ahead
}

// Won says that we got the lock, by an acquire that was sent at this instant. When somebody is ahead who never makes it in his slot, slots get longer: he may be far away.
func (y *Turns) Won(p *Policy, now, sent time.Duration) {
	y.gaps.taken(p, now, sent)
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

// Tries says that an attempt is made. One that does not wait ends the time in which this process stays out: from now on the next
// attempt may be long after that time, so no release may be missed any more.
func (y *Turns) Tries(now time.Duration) {
	if now < y.until {
		y.until, y.gapTo = 0, 0
	}
}

// Hear takes news of releases and says when to try again; never: when it was to be anyway.
func (y *Turns) Hear(p *Policy, now time.Duration, releases int) time.Duration {
	if now < y.echoTo {
		own := min(y.echoes, releases)
		y.echoes -= own
		releases -= own
	}
	if releases == 0 {
		return clock.Never
	}
	y.attendance.heard(releases)
	due := y.gaps.heard(p, now)
	if now < y.gapTo { // who had the lock in a gap was in no line
		if !due {
			return clock.Never
		}
	} else {
		y.ahead = max(y.rank(now)-releases, 0)
		y.gapTo, y.until = now, now+y.wait(p, min(y.slot, slotMax))
	}
	if due {
		y.until += now + p.Gap - y.gapTo
		y.gapTo = now + p.Gap
	}
	return y.until
}

// The messages of our own releases come by another connection than the replies, and several may be behind: whoever took one of them for
// another's release would think that somebody else had a turn, and whoever took another's for one of them would sleep through it.

// Leaves says that a release, or a pass, is sent. What has come since the last one is accounted for.
func (y *Turns) Leaves() {
	y.echoes = max(y.echoes-y.heard, 0)
	y.heard = 0
}

// ExpectEcho says that our own release was published to us. Its message may have come while the release was in flight.
func (y *Turns) ExpectEcho(p *Policy, now time.Duration) {
	y.echoes = max(y.echoes+1-y.heard, 0)
	y.heard = 0
	y.echoTo = now + p.YieldMax
}

// Joined says that the channel is subscribed to from now on. No message of our own releases is expected any more: it was published
// before, or is taken for another's, which costs a try. To expect one in vain would cost somebody's wake-up.
func (y *Turns) Joined() {
	y.echoes = 0
	y.heard++
}

// gaps are the moments in which a lock that is wanted all the time is left free for those who only look now and then.
//
// A process alone makes one when there was none for GapEvery. Of several none can make one: the others would take the lock. So all
// who hear of releases stay out after the same one, the first in a new period of the server's clock. They need not agree about
// the clock to the millisecond: if the period may have begun before one release or before the next, both are the first. The second may come
// during the gap of the first. It makes that gap longer, because the others begin theirs only then.
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
