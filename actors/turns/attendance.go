package turns

import (
	"math"
	"slices"
)

// attendance estimates how many subscribers of the channel never try for the lock, although each release of this process notifies them. They are
// called mere listeners: for example a monitor, a waiter in another database of the server, or a process that is stopped.
//
// A message does not say who receives it, and a release does not say who made it, so this process can only count releases. It counts them in rounds.
// A round is the time between a release by this process and its next grant. In a round, every other process that wants the lock has one turn, and the
// subscribers without a turn count as absent. Some counts are wrong, because a process is slow or has two turns in a round. So the estimate is the
// number of subscribers that were absent in nearly all of the newest rounds. There is one exception: if clearly fewer subscribers than that are
// absent in a single round, the estimate drops at once, because a process that wants the lock may have been taken for a mere listener.
//
// "Clearly fewer" means fewer by more than doubt(), because counts are wrong more often if more processes compete. If every wrong count lowered the
// estimate, this process would wait for mere listeners and miss its turn. Then this process's next count would be wrong as well, and so would the
// counts of the other processes.
type attendance struct {
	notified int  // subscribers that this process's newest release notified, not counting this process
	came     int  // known turns of other processes in this round
	taken    bool // another process has the lock
	waited   bool // in this round, a local waiter has waited while other processes had their turns

	mere   int        // number of subscribers that are taken for mere listeners
	absent [12]uint16 // number of absent subscribers, in each of the newest rounds
	turns  int        // number of rounds that were counted; 0 again after a release that notified nobody
}

// The smallest counts may be wrong, so the method `usual` always ignores the two smallest (outliers). If several processes compete, it also ignores
// the next doubt() counts, at most three (outliersMore).
const outliers, outliersMore = 2, 3

// released begins a round after a release by this process.
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

// conclude ends the round when this process gets a grant.
func (a *attendance) conclude() {
	if a.taken {
		a.came++ // the process that had the lock has released it, but its message has not arrived
		a.taken = false
	}
	absent := max(a.notified-a.came, 0)
	if a.waited {
		a.waited = false
		a.absent[a.turns%len(a.absent)] = uint16(min(absent, math.MaxUint16))
		a.turns++
		a.mere = a.usual()
	}
	if absent+a.doubt() < a.mere { // more processes had turns than expected
		a.mere = absent
	}
}

// doubt is the number of turns by which a count may be wrong: half the number of processes that usually compete.
func (a *attendance) doubt() int { return (a.notified - a.mere) / 2 }

// usual sorts the counts of absent subscribers in the newest rounds, skips the smallest ones (the outliers), and returns the next one. It returns 0
// until enough rounds were counted.
func (a *attendance) usual() int {
	if a.turns < len(a.absent) {
		return 0
	}
	sorted := a.absent
	slices.Sort(sorted[:])
	return int(sorted[outliers+min(a.doubt(), outliersMore)])
}
