package turns

import "time"

// crowd is this process's place among 64 processes or more that wait for a lock. Redis assigns the places (scripts/lib/crowd.lua): each process
// that is refused gets a ticket, and 16 tickets make a row. Only the rows in front receive the messages of releases. A process further back
// subscribes to the channel of its row, and waits until the row is called. So the messages of a turn do not grow with the number of processes, and
// its scripts hardly do.
//
// A process gets a new ticket for each of its turns, so its next place is behind all others.
type crowd struct {
	here   bool  // there was a crowd at the newest refusal, or enough subscribers for one at a release since
	none   bool  // there was none although there were enough subscribers: the user has no right to the tickets
	in     bool  // this process has a ticket
	yields bool  // this process has just had its turn: its next attempt takes a ticket, even if the lock is free
	ticket int64 // its ticket, if its row has yet to be called; 0: the row is in front
}

const (
	crowdLeast = 64              // subscribers to the releases from which on there may be a crowd; also in scripts/lib/crowd.lua
	rowSize    = 16              // number of tickets in a row, and of processes ahead of a row when it is called; also in scripts/lib/crowd.lua
	callMin    = time.Second     // the shortest wait for the call of a row, without jitter, before the process tries again
	callMax    = 5 * time.Second // the longest such wait: the calls may have stopped
)

// Row returns the row whose call this process waits for; 0: it waits for releases. The first ticket is 32, so no row is 0.
func (y *Turns) Row() int64 { return y.crowd.ticket / rowSize }

// InCrowd reports whether this process has a ticket.
func (y *Turns) InCrowd() bool { return y.crowd.in }

// Yields reports whether the next attempt should take a ticket and nothing else, if there is still a crowd.
func (y *Turns) Yields() bool { return y.crowd.yields }

// Called notes that the row of this process was called. The holder of the lock is then ahead of it, and sixteen processes are ahead of its row. longest
// is the longest that a turn usually lasts. The message may be late: a process that does not wait for a call ignores it.
func (y *Turns) Called(now, longest time.Duration) {
	if y.crowd.ticket == 0 {
		return
	}
	y.ahead = rowSize + 1 + int(y.crowd.ticket%rowSize)
	y.fresh = now + 2*time.Duration(y.ahead)*max(longest, y.patience.turn)
	y.crowd.ticket, y.until = 0, now
	y.gaps.last = 0 // this process has not received the messages of earlier releases
}

// FirstTry decides when a process of a crowd that has just subscribed to releases tries if no release comes before; 0: it is not in a crowd, or does
// not know its place, and nothing was decided.
func (y *Turns) FirstTry(p *Policy, now time.Duration) time.Duration {
	if !y.crowd.in || !y.placed {
		return 0
	}
	y.until = now + y.wait(p, min(y.slot, slotMax))
	return y.until
}

// Left notes that no local caller waits any more. The ticket stays in Redis, for the next waiter of this process. That waiter tries at once: by then
// the crowd may be gone.
func (y *Turns) Left() {
	if y.crowd.ticket > 0 {
		y.crowd.ticket, y.until = 0, 0
	}
	y.placed = false
}

// joinCrowd notes the place that a refusal contains. If the wait for a call has ended, and the place has not improved meanwhile, no process ahead has
// had a turn: perhaps none is left to call the row. The process then no longer waits for the call.
func (y *Turns) joinCrowd(p *Policy, now time.Duration, r Refusal) {
	if y.crowd.ticket > 0 && r.Place >= y.ahead && r.Sent >= y.until {
		r.Ticket = 0
	}
	y.crowd, y.ahead = crowd{here: true, in: true, ticket: r.Ticket}, r.Place
	y.attendance.waited = false // it does not receive the messages of all turns, so it cannot count who is absent
	stay := min(callMin+time.Duration(y.ahead)*r.Longest, callMax)
	if r.Holder == "" { // the lock is free, so perhaps no process ahead is left
		stay = callMin
	}
	if r.Ticket == 0 {
		stay = y.wait(p, y.slot)
	}
	y.until = now + stay + p.Jitter(stay/4+1)
}

// leaveCrowd ends a turn while there may be a crowd. The next attempt of this process takes a new ticket, if there is one. That is so even if this
// process got the lock without a ticket, and has never seen the crowd. If it counted the others by its release, as without a crowd, it would only let
// those in front go first.
func (y *Turns) leaveCrowd() (stay time.Duration) {
	y.crowd = crowd{here: true, yields: true}
	y.placed, y.ahead, y.patience.early = false, 0, false
	return y.slot
}

// missing estimates whether a process ahead in the crowd was counted although it does not want the lock, by the time since the newest release: the lock
// was free for a slot. It returns 1 if so. Without that, all processes would have the same error, and slots, which grow with the turns, would
// pass in each turn. Such a time may also be a long turn. Then the place is too far forward, and a refusal corrects it.
func (y *Turns) missing(now time.Duration) int {
	if !y.crowd.in || y.patience.turn == 0 || y.patience.released == 0 {
		return 0
	}
	return min(int((now-y.patience.released)/(2*y.patience.turn)), 1)
}
