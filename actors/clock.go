package actors

import "time"

// Clock is the only source of time in this package. Instants are monotonic and count from the runtime's start.
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

// SystemClock is the clock of the operating system.
type SystemClock struct{ start time.Time }

// NewSystemClock starts counting now.
func NewSystemClock() SystemClock { return SystemClock{start: time.Now()} }

// Now is the time since the start, on the monotonic clock.
func (c SystemClock) Now() time.Duration { return time.Since(c.start) }

// AfterFunc is time.AfterFunc.
func (c SystemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
