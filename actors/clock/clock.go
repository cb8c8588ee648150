// Package clock provides timers, and the time of this process, which includes suspensions of the machine. The packages under actors use its instants
// and timers, with two exceptions: some time limits of calls to the servers, and the pauses of a cluster's discovery, use package time directly.
package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// Never is an instant that never comes.
const Never = time.Duration(math.MaxInt64)

// Clock is the source of time for all decisions about locks. Instants count from the start of the runtime and never go back. They are positive,
// because 0 stands for an instant that is not known. Now includes the time for which the machine was suspended, because Redis continues to expire
// keys during a suspension. Timers do not include this time: code that must notice a suspension soon has to call Now from time to time.
type Clock interface {
	Now() time.Duration
	// AfterFunc calls f once, d from now, on a goroutine of its own.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is the timer of one call of AfterFunc. Its methods are those of time.Timer.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// System is the clock of the operating system: the monotonic clock plus the time of suspensions, during which the monotonic clock stops.
type System struct {
	start time.Time
	sleep *sleepGauge
}

// NewSystem makes a System that counts time from now.
func NewSystem() System { return startSystem(suspended) }

func startSystem(suspended func() time.Duration) System {
	return System{start: time.Now().Add(-1), sleep: newSleepGauge(suspended)} // a nanosecond earlier, so that Now is never 0
}

// Now is the time since the start.
func (c System) Now() time.Duration {
	awake := time.Since(c.start)
	g := c.sleep
	if g.suspended != nil && int64(awake)-g.asked.Load() >= int64(askEvery) {
		g.ask()
		g.asked.Store(int64(awake)) // only after g.ask: a goroutine that reads the new value does not ask, and uses g.slept as it is
	}
	return awake + time.Duration(g.slept.Load())
}

// AfterFunc is time.AfterFunc.
func (c System) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// After returns a channel that is closed d from now, unless the timer is stopped before.
func After(c Clock, d time.Duration) (elapsed chan struct{}, timer Timer) {
	over := make(chan struct{})
	return over, c.AfterFunc(d, func() { close(over) })
}

// sleepGauge measures for how long the machine has been suspended. Go's monotonic clock stops during a suspension (golang/go#24595), so
// without the gauge a lease would seem to have as much time left after a suspension as before.
//
// Now asks the kernel at most about once per askEvery of time awake, because asking costs two system calls. Even so, the first call of Now after a
// suspension always asks, because more than askEvery of time awake has passed since the call before. The kernel freezes all processes before it
// suspends the devices, and resumes the devices before it thaws the processes. Suspending and resuming the devices takes longer than askEvery, and
// counts as time awake.
type sleepGauge struct {
	// fixed at construction
	suspended func() time.Duration // returns the time suspended since a fixed instant, or less; nil if the operating system cannot tell
	base      time.Duration

	slept atomic.Int64
	asked atomic.Int64 // time awake when the kernel was last asked
}

const (
	askEvery = 100 * time.Microsecond
	// sleptLeast is the shortest suspension that counts. It is longer than the possible error of sleepGauge.base, and shorter than the margin of every
	// deadline.
	sleptLeast = time.Millisecond
)

func newSleepGauge(suspended func() time.Duration) *sleepGauge {
	g := &sleepGauge{suspended: suspended}
	if suspended != nil {
		g.base = suspended()
		for range 4 { // a pause during a reading makes the result too small, so the largest result is the best
			g.base = max(g.base, suspended())
		}
	}
	return g
}

// ask asks the kernel how long the machine has been suspended. It keeps the stored answer unless the new answer is larger by sleptLeast or more, so
// the time never goes backwards.
func (g *sleepGauge) ask() {
	slept := int64(g.suspended() - g.base)
	for {
		old := g.slept.Load()
		if slept < old+int64(sleptLeast) || g.slept.CompareAndSwap(old, slept) {
			return
		}
	}
}
