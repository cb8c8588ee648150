// Package clock provides the time of this process, suspensions included, and timers. The packages under actors take instants and timers from
// here, except for the time limits of some calls to the servers.
package clock

import (
	"math"
	"time"
)

// Never is an instant that does not come.
const Never = time.Duration(math.MaxInt64)

// Clock is the source of time for all that decides about locks. Instants count from the start of the runtime and never go back. Now includes
// the time for which the machine was suspended, because Redis continues to expire keys meanwhile. Timers do not include it: code that must
// notice a suspension soon has to call Now from time to time.
type Clock interface {
	Now() time.Duration
	// AfterFunc calls f once, d from now, on a goroutine of its own.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is one AfterFunc.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// System is the clock of the operating system: the monotonic clock plus the suspensions that it misses.
type System struct {
	start time.Time
	sleep *sleepGauge
}

// NewSystem starts counting now.
func NewSystem() System { return startSystem(suspended) }

func startSystem(suspended func() time.Duration) System {
	return System{start: time.Now(), sleep: newSleepGauge(suspended)}
}

// Now is the time since the start.
func (c System) Now() time.Duration {
	awake := time.Since(c.start)
	return awake + c.sleep.until(awake)
}

// AfterFunc is time.AfterFunc.
func (c System) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// After returns a channel that is closed d from now, unless the timer is stopped before.
func After(c Clock, d time.Duration) (elapsed chan struct{}, timer Timer) {
	over := make(chan struct{})
	return over, c.AfterFunc(d, func() { close(over) })
}
