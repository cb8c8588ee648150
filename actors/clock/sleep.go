package clock

import (
	"sync/atomic"
	"time"
)

// sleepGauge measures for how long the machine has been suspended. Go's monotonic clock stops during a suspension (golang/go#24595), so
// without the gauge a lease would seem to have as much time left after a suspension as before.
//
// The kernel is asked about once per askEvery of time awake at most, because asking it costs two system calls. A suspension is noticed at once all the
// same: the kernel freezes all processes before it suspends the devices, and resumes the devices before it thaws the processes. Both take longer
// than askEvery, and the monotonic clock runs meanwhile, so the first call of Now after a suspension asks.
type sleepGauge struct {
	// fixed at construction
	suspended func() time.Duration // time suspended since a fixed instant, perhaps too low; nil: unknown on this system
	base      time.Duration

	slept atomic.Int64
	asked atomic.Int64 // time awake when the kernel was last asked
}

const (
	askEvery = 100 * time.Microsecond
	// sleptLeast is the shortest suspension that counts. It is more than the error of base, and less than the margin of every deadline.
	sleptLeast = time.Millisecond
)

func newSleepGauge(suspended func() time.Duration) *sleepGauge {
	g := &sleepGauge{suspended: suspended}
	if suspended != nil {
		g.base = suspended()
		for range 4 { // the largest of the readings was disturbed least
			g.base = max(g.base, suspended())
		}
	}
	return g
}

// until returns the time for which the machine has been suspended so far. awake is the time for which it has been awake.
func (g *sleepGauge) until(awake time.Duration) time.Duration {
	if g.suspended != nil && int64(awake)-g.asked.Load() >= int64(askEvery) {
		g.ask()
		g.asked.Store(int64(awake)) // stored only now that slept is up to date, because other goroutines then rely on slept
	}
	return time.Duration(g.slept.Load())
}

// ask asks the kernel, and keeps the answer if it exceeds the last answer kept by at least sleptLeast. Time does not go backwards.
func (g *sleepGauge) ask() {
	slept := int64(g.suspended() - g.base)
	for {
		old := g.slept.Load()
		if slept < old+int64(sleptLeast) || g.slept.CompareAndSwap(old, slept) {
			return
		}
	}
}
