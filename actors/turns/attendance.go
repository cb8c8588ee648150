package turns

import (
	"math"
	"slices"
)

// attendance estimates how many of the subscribers that our release notifies try for the lock.
//
// Some subscribers never try: a monitor, a waiter in another database of the server, a process that is stopped. A message does not say who
// receives it, and a release does not say who made it, so counting is all that can be done. Between a release of ours and our next grant, each
// process that wants the lock has one turn; the other subscribers were absent. Turns are sometimes counted wrongly: a process is slow, or has
// two turns. So the estimate is the number of subscribers that were absent in nearly all of the newest turns.
type attendance struct {
	notified int  // subscribers that our newest release notified, without ourselves
	came     int  // turns of others since then, as far as we know
	taken    bool // another process has the lock
	waited   bool // a local waiter has waited since then while other processes had their turns

	mere   int        // how many subscribers are taken for mere listeners
	absent [12]uint16 // how many were absent, in each of the newest turns
	turns  int        // turns of ours since a release first notified somebody
}

// outliers is how many of the newest turns may have been counted wrongly.
const outliers = 2

// released begins to count after a release of ours.
func (a *attendance) released(notified int) {
	a.notified, a.came, a.taken, a.waited = notified, 0, false, false
	if notified == 0 {
		a.turns = 0
	}
	a.mere = min(a.mere, notified)
}

// heard counts releases of other processes.
func (a *attendance) heard(releases int) {
	a.came += releases
	a.taken = false
}

// conclude ends the count when we get a grant.
func (a *attendance) conclude() {
	if a.taken {
		a.came++ // that process has released the lock, but its message has not arrived
		a.taken = false
	}
	absent := max(a.notified-a.came, 0)
	if a.waited {
		a.waited = false
		a.absent[a.turns%len(a.absent)] = uint16(min(absent, math.MaxUint16))
		a.turns++
		a.mere = a.usual()
	}
	a.mere = min(a.mere, absent) // if more came than expected, fewer count as mere listeners
}

// usual is how many subscribers were absent in all but the outliers of the newest turns.
func (a *attendance) usual() int {
	if a.turns < len(a.absent) {
		return 0
	}
	sorted := a.absent
	slices.Sort(sorted[:])
	return int(sorted[outliers])
}
