package turns

import "time"

// crowd is the part of Turns that is used when 64 processes or more wait for a lock. Redis then assigns the places (scripts/lib/crowd.lua): each
// process that is refused gets a ticket, and 16 tickets make a row. Only processes near the front receive the messages of releases. A process further
// back subscribes to the channel of its row, and waits until the row is called. So the number of messages in a turn does not grow with the number of
// processes, and the number of script calls hardly grows.
//
// A process gets a new ticket for each of its turns, so its next place is behind all others.
type crowd struct {
	here   bool  // the newest refusal showed a crowd, or a later release has notified enough subscribers for a crowd
	none   bool  // the newest refusal showed no crowd although there are enough subscribers: the Redis user has no right to use tickets
	in     bool  // this process has a ticket
	yields bool  // this process has just had its turn: its next attempt takes a ticket, even if the lock is free
	ticket int64 // this process's ticket while the process waits for the call of its row; otherwise 0
}

const (
	crowdLeast = 64              // with this many subscribers to releases there may be a crowd; also in scripts/lib/crowd.lua
	rowSize    = 16              // a row has this many tickets, and is called when this many processes are ahead of it; also in scripts/lib/crowd.lua
	callMin    = time.Second     // a process waits at least this long, plus jitter, for the call of its row before it tries again
	callMax    = 5 * time.Second // the longest such wait: if no process is left to call rows, a longer wait would only waste time
)

// Row returns the row whose call this process waits for, or 0 if it waits for releases. The first ticket is 32, so no row is 0.
func (y *Turns) Row() int64 { return y.crowd.ticket / rowSize }

// InCrowd reports whether this process has a ticket.
func (y *Turns) InCrowd() bool { return y.crowd.in }

// Yields reports whether the next attempt should leave even a free lock to the crowd, and only take a ticket. If there is no crowd any more, Redis
// treats the attempt like any other.
func (y *Turns) Yields() bool { return y.crowd.yields }

// Called notes that the row of this process was called. At that time, the lock's holder and sixteen other processes were ahead of its row. The
// parameter `longest` is the time after which a turn usually ends (Options.Handoff). If the process does not wait for a call, the message is late,
// and is ignored.
func (y *Turns) Called(now, longest time.Duration) {
	if y.crowd.ticket == 0 {
		return
	}
	y.ahead = rowSize + 1 + int(y.crowd.ticket%rowSize)
	y.fresh = now + 2*time.Duration(y.ahead)*max(longest, y.patience.turn)
	y.crowd.ticket, y.until = 0, now
	y.gaps.last = 0 // this process has not received the messages of earlier releases
}

// FirstTry is called when this process has just subscribed to releases. It returns the instant of the next attempt; a release message may lead to an
// earlier attempt. If the process is not in a crowd or does not know its place, FirstTry returns 0 and changes nothing.
func (y *Turns) FirstTry(p *Policy, now time.Duration) time.Duration {
	if !y.crowd.in || !y.placed {
		return 0
	}
	y.until = now + y.wait(p, min(y.slot, slotMax))
	return y.until
}

// Left notes that no local caller waits any more. The ticket stays in Redis, for the next waiter of this process. That waiter does not wait for
// the call of a row: by then the crowd may be gone.
func (y *Turns) Left() {
	if y.crowd.ticket > 0 {
		y.crowd.ticket, y.until = 0, 0
	}
	y.placed = false
}

// joinCrowd notes the place that a refusal contains. Suppose that this process has waited in vain for the call of its row, and that its place is no
// better than before the wait. Then no process ahead has had a turn, and perhaps no process is left to call the row. So this process no longer waits
// for the call.
func (y *Turns) joinCrowd(p *Policy, now time.Duration, r Refusal) {
	if y.crowd.ticket > 0 && r.Place >= y.ahead && r.Sent >= y.until {
		r.Ticket = 0
	}
	y.crowd, y.ahead = crowd{here: true, in: true, ticket: r.Ticket}, r.Place
	y.attendance.waited = false // a process in a crowd misses the messages of some turns, so it cannot count who is absent
	stay := min(callMin+time.Duration(y.ahead)*r.Longest, callMax)
	if r.Holder == "" { // the lock is free, so perhaps no process ahead is left
		stay = callMin
	}
	if r.Ticket == 0 {
		stay = y.wait(p, y.slot)
	}
	y.until = now + stay + p.Jitter(stay/4+1)
}

// leaveCrowd ends a turn when there may be a crowd. If there is one, this process takes a new ticket at its next attempt. It does so even if it got
// the lock without a ticket and has never seen the crowd. Without a new ticket, this process would let only those processes go first that its release
// has notified. In a crowd these are too few: only the processes in front.
func (y *Turns) leaveCrowd() (stay time.Duration) {
	y.crowd = crowd{here: true, yields: true}
	y.placed, y.ahead, y.patience.early = false, 0, false
	return y.slot
}

// missing returns 1 if a process ahead in the crowd seems not to want the lock, otherwise 0. It compares the time since the newest release with the
// usual length of a turn. If the time is at least twice that length, the lock was probably free while the process ahead let its slot pass. So that
// process is not counted any more. If it were still counted, all processes behind it would wait one more slot in each turn. Turns would become
// longer, and so would slots.
//
// The decision is wrong if the turn really took that long. Then this process counts too few processes ahead, until a refusal corrects its place.
func (y *Turns) missing(now time.Duration) int {
	if !y.crowd.in || y.patience.turn == 0 || y.patience.released == 0 {
		return 0
	}
	return min(int((now-y.patience.released)/(2*y.patience.turn)), 1)
}
