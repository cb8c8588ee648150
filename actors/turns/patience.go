package turns

import "time"

// patience makes slots as long as the turns of other processes. (A slot is the time that a process leaves to each process ahead of it, see Turns.)
// When the slots of all processes ahead are over, this process tries, in case they have stopped waiting. If slots are shorter than turns, one process
// gets the lock, and all the others try during that process's turn and find the lock taken. Such attempts are called attempts in vain.
//
// An attempt is early if it is made although processes are ahead. Each other waiting process may have the lock once before this process gets it, so
// one early attempt in vain for each of them is normal, and changes nothing. Every further early attempt in vain doubles the slots. If an early
// attempt finds the lock free, slots become short again: a process ahead has stopped waiting, and the lock was free during the slot of that process.
// If only mere listeners (subscribers that never try) are ahead, each process finds the lock free before its slots double, so slots stay short.
//
// Slots of a wrong length do harm. If they are too long, the lock stays free. If they are too short, turns are out of order, which spoils the
// estimate of attendance.
type patience struct {
	turn     time.Duration // an estimate of the usual time between two releases; it may be too low
	released time.Duration // instant of the newest release, or 0 if none is known
	vain     int           // number of early attempts in vain; 0 again when a process ahead has let its slot pass
	holder   string        // the process that had the lock at the newest refusal; "" if it is unknown, or if this process has had a turn since
	early    bool          // the next attempt is made although processes are ahead
}

const (
	othersMax    = 16 // an upper estimate of the number of processes that ask in one turn
	doublingsMax = 10
)

// heard notes a release of another process.
func (w *patience) heard(now time.Duration) {
	switch turn := now - w.released; {
	case w.released == 0: // the length of the other process's turn is unknown
	case w.turn == 0:
		w.turn = turn
	case turn < w.turn:
		w.turn += (turn - w.turn) / 2
	default: // this time may be longer than a turn: the lock may have been free, because the processes ahead did not try
		w.turn += (turn - w.turn) / 16
	}
	w.released = now
}

// refused notes an attempt that found the lock taken. If the attempt was early, the holder shows whether it was in vain. If the lock has another
// holder than at the previous refusal, the processes take turns, so the attempt was in vain. If it has the same holder, the processes ahead do not
// try for the lock. Longer slots would then only delay this process, so slots become short again.
func (w *patience) refused(holder string) {
	early, known := w.early, holder != "" && w.holder != ""
	switch {
	case early && known && holder == w.holder:
		w.vain = 0
	case early && known:
		w.vain++
	}
	w.early, w.holder = false, holder
}

// won notes a grant. The parameter `absent` says whether some of the processes ahead are known not to try.
func (w *patience) won(absent bool) {
	if w.early || absent {
		w.vain = 0
	}
	w.holder, w.early = "", false
}

// slot makes a short slot longer if there have been more attempts in vain than there are other waiters.
func (w *patience) slot(short time.Duration, others int) time.Duration {
	doublings := min(max(w.vain-min(others, othersMax), 0), doublingsMax)
	return max(short, min(short<<doublings, w.turn+w.turn/4))
}
