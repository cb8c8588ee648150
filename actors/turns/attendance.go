package turns

import "slices"

// attendance is how many of the subscribers that a release of ours notifies come for the lock.
//
// Some never do: a monitor, a waiter in another database of the server, a process that is stopped. A message does not say who receives
// it, and a release does not say whose it is, so all that can be done is to count. Between a release of ours and our next grant each
// process that wants the lock has one turn; whoever else was notified was absent. Turns are counted wrongly now and then: a process is
// slow, or has two turns. So what counts is by how many the absent were outnumbered in few of the newest turns only.
type attendance struct {
	notified int  // by our newest release, without ourselves
	came     int  // turns of others since then, as far as we know
	taken    bool // somebody else has the lock
	waited   bool // somebody here has waited since then, while it was the others' time

	mere   int     // how many are taken for mere listeners
	absent [12]int // how many were, in the newest turns
	turns  int     // of ours, since somebody was notified
}

// outliers is how many of the newest turns may have been counted wrongly.
const outliers = 2

// released begins to count.
func (a *attendance) released(notified int) {
	a.notified, a.came, a.taken, a.waited = notified, 0, false, false
	if notified == 0 {
		a.turns = 0
	}
	a.mere = min(a.mere, notified)
}

// heard counts releases by others.
func (a *attendance) heard(releases int) {
	a.came += releases
	a.taken = false
}

// conclude is called with each grant of ours.
func (a *attendance) conclude() {
	if a.taken {
		a.came++ // and released it unheard
		a.taken = false
	}
	absent := max(a.notified-a.came, 0)
	if a.waited {
		a.waited = false
		a.absent[a.turns%len(a.absent)] = absent
		a.turns++
		a.mere = a.usual()
	}
	a.mere = min(a.mere, absent) // when more have come than expected, all of them are waited for next time
}

// usual is how many are always absent, but for outliers.
func (a *attendance) usual() int {
	if a.turns < len(a.absent) {
		return 0
	}
	sorted := a.absent
	slices.Sort(sorted[:])
	return sorted[outliers]
}
