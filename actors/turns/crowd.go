package turns

import "time"

// crowd is this process's place among very many processes that wait for a lock. Redis gives out the places (scripts/lib/crowd.lua): each process that
// is refused takes a ticket, and 16 tickets make a row. Only the rows in front receive the messages of releases. A process further back waits
// on the channel of its row until the row is called. So neither the messages nor the scripts of a turn grow with the number of processes.
//
// A process takes a new ticket for each of its turns, so it goes behind all others.
type crowd struct {
	here   bool  // there was a crowd when this process was last refused
	in     bool  // this process has a ticket
	yields bool  // this process has just had its turn: its next attempt takes a ticket, even if the lock is free
	ticket int64 // its ticket, if its row has yet to be called; 0: the row is in front
}

const (
	rowSize = 16              // number of tickets in a row, and of places in front of the row that is called; also in scripts/lib/crowd.lua
	callMin = time.Second     // least that a process waits for the call of its row before it asks again
	callMax = 5 * time.Second // most that it waits: the calls may have stopped
)

// Row returns the row whose call this process waits for; 0: it waits for releases.
func (y *Turns) Row() int64 { return y.crowd.ticket / rowSize }

// InCrowd reports whether this process has a ticket.
func (y *Turns) InCrowd() bool { return y.crowd.in }

// Yields reports whether the next attempt should take a ticket and nothing else.
func (y *Turns) Yields() bool { return y.crowd.yields }

// Called notes that the row of this process was called, and Redis lets a row be called when the sixteen places before it are in front.
func (y *Turns) Called(now, longest time.Duration) {
	y.ahead = rowSize + 1 + int(y.crowd.ticket%rowSize)
	y.fresh = now + 2*time.Duration(y.ahead)*longest
	y.crowd.ticket = 0
	y.gaps.last = 0 // this process has not heard the releases before
}

// FirstTry returns the instant at which a process in the crowd may try although it has not heard a release; 0: it is not in the crowd, or does not
// know its place.
func (y *Turns) FirstTry(p *Policy, now time.Duration) time.Duration {
	if !y.crowd.in || !y.placed {
		return 0
	}
	y.until = now + y.wait(p, min(y.slot, slotMax))
	return y.until
}

// Left notes that nobody in this process waits any more. The ticket stays in Redis, for the next waiter of this process.
func (y *Turns) Left() { y.crowd = crowd{here: y.crowd.here} }

// joinCrowd takes the place that a refusal names. If a process whose row was not called has not come forward since its last refusal, those in front
// may be gone: it then no longer waits for the call.
func (y *Turns) joinCrowd(p *Policy, now time.Duration, r Refusal) {
	if y.crowd.ticket > 0 && r.Place >= y.ahead {
		r.Ticket = 0
	}
	y.crowd, y.ahead = crowd{here: true, in: true, ticket: r.Ticket}, r.Place
	y.attendance.waited = false // this process does not hear all the others
	stay := min(callMin+time.Duration(y.ahead)*r.Longest, callMax)
	if r.Ticket == 0 {
		stay = y.wait(p, y.slot)
	}
	y.until = now + stay + p.Jitter(stay/4+1)
}

// leaveCrowd ends a turn while there is a crowd. The next attempt of this process takes a new ticket. That is so even if this process got the lock
// without one. If it counted the others by its release, as without a crowd, it would only let those in front go first.
func (y *Turns) leaveCrowd() (stay time.Duration) {
	y.Left()
	y.crowd.yields, y.placed, y.ahead, y.patience.early = true, false, 0, false
	return y.slot
}
