package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time on a clock that all processes of this machine share. It includes the time for which the machine was suspended.
func Now() time.Duration { return now(unix.CLOCK_BOOTTIME) }

func now(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(err) // the kernel has had this clock since 2.6.39
	}
	return time.Duration(t.Nano())
}
