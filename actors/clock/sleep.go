package clock

import (
	"sync/atomic"
	"time"
)

// sleepGauge tells for how long the machine has been suspended. Go's monotonic clock stands still meanwhile (golang/go#24595), so a
// lease looked valid for as long again as it was when the lid was closed.
//
// The kernel is asked no more often than every askEvery of time awake, because that costs two system calls. The look is not late
// for that: the kernel freezes all processes first and suspends the devices then, which takes longer, and wakes them in the
// reverse order. The monotonic clock runs all that time, so whoever looks first after a suspension asks.
type sleepGauge struct {
	// fixed at construction
	suspended func() time.Duration // since some instant; it may err to the low side; nil: this system does not tell
	base      time.Duration

	slept atomic.Int64
	asked atomic.Int64 // how long the machine had been awake then
}

const (
	askEvery = 100 * time.Microsecond
	// sleptLeast is more than what the base may be wrong by, and less than the margin of every deadline.
	sleptLeast = time.Millisecond
)

func newSleepGauge(suspended func() time.Duration) *sleepGauge {
	g := &sleepGauge{suspended: suspended}
	if suspended != nil {
		g.base = suspended()
		for range 4 { // the largest is the one that was disturbed least
			g.base = max(g.base, suspended())
		}
	}
	return g
}

// until is how long the machine has slept by now; awake is how long it has been awake.
func (g *sleepGauge) until(awake time.Duration) time.Duration {
	if g.suspended != nil && int64(awake)-g.asked.Load() >= int64(askEvery) {
		g.ask()
		g.asked.Store(int64(awake)) // after the answer is there: nobody may count on it before
	}
	return time.Duration(g.slept.Load())
}

// ask never takes anything back: time does not go backwards.
func (g *sleepGauge) ask() {
	slept := int64(g.suspended() - g.base)
	for {
		old := g.slept.Load()
		if slept < old+int64(sleptLeast) || g.slept.CompareAndSwap(old, slept) {
			return
		}
	}
}
