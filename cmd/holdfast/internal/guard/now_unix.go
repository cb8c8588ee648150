//go:build unix && !linux

package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time on a clock that all processes of this machine share.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
