package turns

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// Turns keeps this process from trying again right after its turn, because the process that has just released a lock would nearly always
// win it again.
//
// Processes take turns without a common list. The reply to a release says how many other subscribers received its message. The releaser lets that
// many processes have a turn before it tries again, and counts their turns by the release messages that it receives. So the process that has waited
// longest tries first after a release, and every other process waits one slot for each process ahead of it. A wrong count does little harm: processes
// try in another order, or a slot passes unused because the process ahead has stopped waiting.
//
// While all the other processes want the lock, slots become as long as turns (see patience). With shorter slots, all of these processes would try
// during the turn of the first one, and find the lock taken.
//
// Some subscribers never try for the lock. Each process estimates their number (see attendance), but still counts them as processes ahead, because
// other processes may not have noticed yet that these subscribers never try. If only such subscribers are ahead, this process does not wait.
//
// A process that has had no turn yet learns from a refusal how many subscribers there are, and takes a random place among them. (Scripts report that
// number for plain and fenced locks, but not on a cluster, where no node knows all subscribers.) Without such a place, all newcomers would try after
// every release. The last place would be fair, but many processes may begin to wait at the same time. If all of them took the last place, they would
// let each other go first, and the lock would be free meanwhile.
//
// If 64 processes or more wait, Redis assigns the places: see crowd.
//
// Clients that spin, poll or reconnect receive no message, so they cannot be counted. On a cluster with plain messages, the reply to a release does
// not count the subscribers at other nodes either. This process leaves the lock free for all these clients in gaps, and for a slot after each turn
// whose grant has lingered.
type Turns struct {
	until time.Duration // no attempt before this instant, except by TryAcquire, which sets it to 0
	ahead int           // number of other processes that have a turn before this one
	fresh time.Duration // the instant up to which `ahead` is used; by then, the processes ahead must have had their turns or stopped waiting
	slot  time.Duration // the time that is left to each process ahead for acquiring the lock
	gapTo time.Duration // end of the gap, in which this process leaves the lock to clients that are not counted
	heard int           // messages and subscriptions that came while this process held the lock; after Leaves: those that came since then
	wins  uint8         // number of doublings of the slots; each grant that this process got although another was ahead adds one
	good  uint8         // number of grants in a row for which no process was ahead; starts over when Won changes `wins`

	echoes int           // messages of this process's own releases that have not arrived yet
	echoTo time.Duration // the instant after which those messages are not expected any more

	placed bool // `ahead` was determined after this process had subscribed

	OthersListen bool // another contender of this process is subscribed; set by the group of contenders

	crowd      crowd
	attendance attendance
	patience   patience
	gaps       gaps
}

const (
	yieldMax = 50 * time.Millisecond  // limit for the slots of all processes ahead together, unless patience or slotMin makes the slots longer
	slotMin  = 500 * time.Microsecond // slots are shortened if many processes are ahead, but not below this
	slotMax  = 5 * time.Millisecond   // longest slot after another process's release, unless patience or a crowd makes it longer
	farMax   = 900 * time.Millisecond // a wait exceeds yieldMax by at most this, in case all processes ahead have stopped waiting
	winsMax  = 10
	goodMax  = 8 // after this many grants in a row for which no process was ahead, slots become shorter again
)

// Policy holds the times that decisions about turns depend on.
type Policy struct {
	GapEvery  time.Duration // interval of gaps if a process has no competitor, or if the lock has a queue in Redis
	GapShared time.Duration // interval of gaps if processes compete; if two processes alternate, a gap delays fewer than one in a hundred waits

	Jitter     func(time.Duration) time.Duration // returns a random time of at least 0 and less than its argument
	ServerTime func(time.Duration) time.Duration // converts an instant of this process to the server's time
}

// WithTimes fills in the fixed times.
func (p Policy) WithTimes() Policy {
	p.GapEvery = time.Second
	p.GapShared = 3 * time.Second / 2
	return p
}

// Ended describes a turn of this process whose release Redis has confirmed.
type Ended struct {
	Sent      time.Duration // when the release was sent
	Began     time.Duration // when the turn began
	Longest   time.Duration // the time after which a turn usually ends
	Receivers int           // number of subscribers that received the release's message, including this process if it listens
	Listens   bool          // this process is subscribed
	Crowds    bool          // a crowd is possible, because scripts count the subscribers of this kind of lock
	Lingered  bool          // the turn's grant has lingered; slots are then longer, because a client that misses its slot waits for a long turn again
}

// After decides how long this process pauses after a confirmed release.
func (y *Turns) After(p *Policy, now time.Duration, t Ended) {
	others := t.Receivers
	if t.Listens {
		others-- // our own subscription
		if t.Receivers > 0 {
			y.ExpectEcho(now)
		}
	}
	y.placed, y.ahead = true, max(others, 0)
	y.attendance.released(y.ahead)
	y.patience.released = now
	y.slot = now - t.Sent
	if t.Lingered {
		y.slot = max(y.slot, (now-t.Began)/16)
	}
	y.slot = min(min(y.slot, yieldMax)<<y.wins, yieldMax)
	var stay time.Duration
	if y.crowd.here || t.Crowds && t.Receivers >= crowdLeast && !y.crowd.none {
		stay = y.leaveCrowd()
	} else {
		stay = y.wait(p, y.slot)
	}
	y.gapTo = now // if a gap began while this process's acquire was in flight, that gap is over
	y.fresh = now + stay + 2*time.Duration(y.ahead)*max(now-t.Began, t.Longest)
	switch {
	case y.gaps.released(p, now, t.Sent, stay > 0, others > 0):
		y.gapTo = now + gap
		stay += gap
	case t.Lingered: // leave a slot even if nobody is known to be ahead: the lock may not be free again for a long time
		stay = max(stay, min(y.slot, gap))
	}
	y.until = now + stay
	if others <= 0 {
		y.Nobody()
	}
}

// Yield decides how long this process pauses after a confirmed release that was sent at the instant `sent`. It is called only for locks with a queue
// in Redis: among their own waiters, processes do not take turns. The process pauses for a slot if waiters of other kinds of lock were notified, and
// for a gap if one is due.
func (y *Turns) Yield(p *Policy, now, sent time.Duration, notified bool) {
	switch {
	case y.gaps.released(p, now, sent, false, false):
		y.until = now + gap
	case notified:
		y.until = now + min(now-sent, yieldMax)
	}
}

// Refusal describes an attempt that found the lock held by another process.
type Refusal struct {
	Sent        time.Duration
	Longest     time.Duration // the time after which a turn usually ends
	Subscribers int           // subscribers of the channel, this process included, or 0 if unknown
	Place       int           // this process's place in the crowd, from 1, or 0 if there is no crowd
	Ticket      int64         // this process's ticket if the process must wait for the call of its row, or 0 if it need not wait
	Holder      string        // the process that has the lock; "" if that process is unknown, or if the lock is free but is left to the crowd
}

// Refused notes a refusal, and gives a newcomer its place among the subscribers.
func (y *Turns) Refused(p *Policy, now time.Duration, r Refusal) {
	if r.Subscribers > 0 || y.crowd.in { // in a crowd Subscribers may be 0: a process that waits for a call is not subscribed to releases
		y.findPlace(p, now, r)
	}
	y.patience.refused(r.Holder)
	y.attendance.taken = true
}

// findPlace takes the place that Redis assigns in a crowd. Without a crowd, a process that has no place takes a random one.
func (y *Turns) findPlace(p *Policy, now time.Duration, r Refusal) {
	switch {
	case r.Place > 0:
		y.slot = min(now-r.Sent, yieldMax)
		y.joinCrowd(p, now, r)
	case !y.placed || y.crowd.in:
		y.slot = min(now-r.Sent, yieldMax)
		others := max(r.Subscribers-1, 0)
		y.crowd = crowd{none: r.Subscribers >= crowdLeast}
		y.ahead = others - int(p.Jitter(time.Duration(others+1)))
	default:
		return
	}
	y.placed = true
	y.fresh = now + 2*time.Duration(y.ahead)*max(r.Longest, y.patience.turn)
}

// AsksPlace reports whether the next attempt asks Redis for the place of this process. The reply contains the place if the attempt is refused. The
// process asks in three cases: it has no place; its place is in a crowd, so Redis knows the place better; or no process is ahead of it. In the third
// case, a refusal means that a crowd may have begun.
func (y *Turns) AsksPlace() bool { return !y.placed || y.crowd.in || y.ahead == 0 }

// Waited notes that a local waiter waits while other processes have their turns.
func (y *Turns) Waited() { y.attendance.waited = true }

// OpensAt returns the instant from which an attempt may be made, or 0 if it may be made at once.
func (y *Turns) OpensAt() time.Duration { return y.until }

// GapDue reports whether a gap is due for a process that is alone, or for a lock with a queue in Redis, however many processes are in the queue.
func (y *Turns) GapDue(p *Policy, now time.Duration) bool { return y.gaps.due(p, now) }

// MereListeners returns the number of subscribers that are believed not to want the lock.
func (y *Turns) MereListeners() int { return y.attendance.mere }

// Overheard counts release messages that came while this process held the lock, or while its release was in flight.
func (y *Turns) Overheard(releases int) { y.heard += releases }

// Nobody notes that no other process waits for the lock.
func (y *Turns) Nobody() { y.ahead, y.wins, y.good, y.patience, y.crowd = 0, 0, 0, patience{}, crowd{} }

// wait returns how long to leave the lock to the processes ahead. All their slots together usually last at most yieldMax. If patience or slotMin
// makes them last longer, this process tries at a random instant after yieldMax, at most farMax later.
func (y *Turns) wait(p *Policy, slot time.Duration) time.Duration {
	y.patience.early = y.ahead > y.absent()
	if !y.patience.early {
		return 0
	}
	short := max(slotMin, yieldMax/time.Duration(max(y.attendance.notified, y.ahead)))
	slot = y.patience.slot(min(slot, short), y.attendance.notified)
	if y.crowd.in { // all the others want the lock
		slot = max(slot, y.patience.turn+y.patience.turn/4)
	}
	if stay := time.Duration(y.ahead) * slot; stay <= yieldMax {
		return stay + p.Jitter(slot)
	}
	return yieldMax + p.Jitter(min(time.Duration(y.ahead)*yieldMax/16, farMax))
}

// Waits reports whether other processes have their turns now.
func (y *Turns) Waits(now time.Duration) bool { return now < y.until && y.attendance.notified > 0 }

// absent returns how many of those ahead are believed not to want the lock. In a crowd the result is 0, because only processes that
// want the lock have places.
func (y *Turns) absent() int {
	if y.crowd.in {
		return 0
	}
	return y.attendance.mere
}

// rank returns the number of processes that have a turn before this one.
func (y *Turns) rank(now time.Duration) int {
	if now >= y.fresh {
		return 0
	}
	return y.ahead
}

// Won notes a grant. The acquire was sent at the instant `sent`. If a process ahead did not acquire the lock within its slot, slots become longer,
// because that process may have a slow network.
func (y *Turns) Won(p *Policy, now, sent time.Duration) {
	y.crowd.ticket, y.crowd.yields = 0, false
	y.gaps.taken(p, now, sent)
	y.patience.won(y.absent() > 0)
	if y.until == 0 {
		return // the attempt did not wait for slots: TryAcquire made it, or there were no slots yet
	}
	if y.rank(now) > y.absent() {
		y.wins, y.good = min(y.wins+1, winsMax), 0
	} else if y.good++; y.good == goodMax {
		y.wins, y.good = max(y.wins, 1)-1, 0
	}
	if y.attendance.notified > 0 {
		y.attendance.conclude()
	}
}

// Tries notes an attempt. TryAcquire may make an attempt before the turn of this process. Such an attempt ends the pause and the gap. From then on,
// every release message leads to an attempt: the process does not rely on the next planned attempt, which may be far away.
func (y *Turns) Tries(now time.Duration) {
	if now < y.until {
		y.until, y.gapTo, y.patience.early = 0, 0, false
	}
}

// Hear takes release messages and returns when to try again, or clock.Never if the time of the next attempt stays the same.
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
	if y.patience.released > 0 && y.attendance.notified == 1 {
		y.shorten(now - y.patience.released)
	}
	passed := releases + y.missing(now)
	y.patience.heard(now)
	due := y.gaps.heard(p, now)
	if now < y.gapTo { // the lock was held by a client that used the gap; `ahead` does not count such clients
		if !due {
			return clock.Never
		}
	} else {
		y.ahead = max(y.rank(now)-passed, 0)
		y.gapTo, y.until = now, now+y.wait(p, min(y.slot, slotMax))
	}
	if due {
		y.until += now + gap - y.gapTo
		y.gapTo = now + gap
	}
	return y.until
}

// shorten is called after a turn of the only other process, and shortens slots that Won has made longer. The turn shows how fast the other process
// acquires and releases the lock. If the other process lets a much longer slot pass, it does not want the lock, and the time of the slot is wasted.
// Slots stay at least twice as long as the turn, because the next turn may take longer. If there are several other processes, shorten is not called,
// because a slower process may have missed its slot.
func (y *Turns) shorten(turn time.Duration) {
	for y.wins > 0 && y.slot/4 >= turn {
		y.wins--
		y.slot /= 2
	}
}

// This process receives the messages of its own releases on another connection than the replies, and several of these messages may be late. A message
// of its own must not be taken for another process's release, or the other process would seem to have had its turn. Another process's message must
// not be taken for one of its own, or a wake-up would be lost.

// Leaves notes that this process sends a release or a pass. Messages that came while this process held the lock are taken for late messages of this
// process's own earlier releases.
func (y *Turns) Leaves() {
	y.echoes = max(y.echoes-y.heard, 0)
	y.heard = 0
}

// ExpectEcho notes that this process is among the receivers of its own release's message. The message may have arrived already, while the release was
// in flight.
func (y *Turns) ExpectEcho(now time.Duration) {
	y.echoes = max(y.echoes+1-y.heard, 0)
	y.heard = 0
	y.echoTo = now + yieldMax
}

// Joined notes a new subscription of the channel. This process may have missed the messages of its earlier releases, so it does not expect them any
// more. There is one exception: if the pause after its newest release still lasts, the message of that release is expected. On a cluster, that
// message may reach the node of the subscription later than the subscription itself. If this process took the message for another process's release,
// the pause would end at once. If the expected message never comes, this process may ignore the message of another process's release instead. Even
// then no wake-up is lost, because the pause has an end.
func (y *Turns) Joined(now time.Duration) {
	y.echoes = 0
	if now < y.until && y.gaps.freed != 0 {
		y.echoes, y.echoTo = 1, min(y.until, now+yieldMax)
	}
	y.heard++
	y.placed = now < y.fresh
	y.patience = patience{turn: y.patience.turn}
}

// gaps are the moments in which a lock that is always in demand is left free for clients that only poll.
//
// A process without competitors makes a gap when GapEvery has passed since the last one. Competing processes must all pause after the same release: a
// process that did not pause would take the lock. They pause after the first release in each period of GapShared, measured by the server's clock.
// Their estimates of that clock differ a little. So if a release comes just before or after the beginning of a period, the processes may disagree
// whether the release is in that period. Therefore both this release and the one after it count as the first. If the second release comes during the
// gap, the gap becomes longer, because some processes may begin their gap only after the second release.
type gaps struct {
	last  time.Duration // server time of the newest release that is known
	since time.Duration // when the newest gap began
	freed time.Duration // when this process's own release was executed, or 0 if the lock has been taken since
	open  time.Duration // total time for which the lock has been free since the newest gap
}

const gap = 25 * time.Millisecond // the time for which a lock in constant demand is left free for clients that poll

// ClockError is the largest error of a process's estimate of the server's time.
const ClockError = 1500 * time.Microsecond

// released notes this process's own release and reports whether a gap is due. `waited` is true if this process now leaves slots to other processes,
// and `listened` is true if another subscriber received the message.
func (g *gaps) released(p *Policy, now, sent time.Duration, waited, listened bool) bool {
	g.freed = (sent + now) / 2
	if due := g.newPeriod(p, now); waited {
		return due && g.begin(now)
	}
	if !g.due(p, now) {
		return false
	}
	often := g.open >= (now-g.since)/8          // the lock was free often enough for clients that poll
	return g.begin(now) && (!often || listened) // subscribers try right after a release, so they can win only if a gap follows it
}

// due reports whether GapEvery has passed since the newest gap.
func (g *gaps) due(p *Policy, now time.Duration) bool { return now-g.since >= p.GapEvery }

// heard notes another process's release and reports whether a gap is due.
func (g *gaps) heard(p *Policy, now time.Duration) bool {
	g.freed = 0
	return g.newPeriod(p, now) && g.begin(now)
}

// taken notes a grant of this process. If the lock was free for the length of a gap before the grant, that counts as a gap.
func (g *gaps) taken(p *Policy, now, sent time.Duration) {
	free := (sent+now)/2 - g.freed
	switch {
	case g.last == 0, g.freed != 0 && free >= gap:
		g.last = p.ServerTime(now)
		g.begin(now)
	case g.freed != 0:
		g.open += free
	}
	g.freed = 0
}

func (g *gaps) begin(now time.Duration) bool {
	g.since, g.open = now, 0
	return true
}

// newPeriod notes a release and reports whether a period may have begun since the release before it.
func (g *gaps) newPeriod(p *Policy, now time.Duration) bool {
	last := g.last
	g.last = p.ServerTime(now)
	return last != 0 && (g.last+ClockError)/p.GapShared > (last-ClockError)/p.GapShared
}
