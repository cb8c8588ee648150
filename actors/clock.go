package actors

import "time"

// Clock is the only source of time in this package. Instants count from the runtime's start and never go back. Now counts the time
// that the machine was suspended, as Redis does, which goes on expiring keys; timers do not, so whoever needs to know of a
// suspension soon has to look.
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

// SystemClock is the clock of the operating system: the monotonic one, and what it has missed.
type SystemClock struct {
	start time.Time
	sleep *sleepGauge
}

// NewSystemClock starts counting now.
func NewSystemClock() SystemClock { return newSystemClock(suspended) }

func newSystemClock(suspended func() time.Duration) SystemClock {
	return SystemClock{start: time.Now(), sleep: newSleepGauge(suspended)}
}

// Now is the time since the start.
func (c SystemClock) Now() time.Duration {
	awake := time.Since(c.start)
	return awake + c.sleep.until(awake)
}

// AfterFunc is time.AfterFunc.
func (c SystemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
