package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is how long the machine has been suspended since it was started, at most: CLOCK_BOOTTIME is CLOCK_MONOTONIC and that.
// The monotonic clock is read last, so what happens in between only makes the answer smaller. It is read from the kernel too,
// because the one of package time may be a bubble's of testing/synctest.
func suspended() time.Duration {
	return kernelClock(unix.CLOCK_BOOTTIME) - kernelClock(unix.CLOCK_MONOTONIC)
}

// kernelClock is 0 where the system calls are not what they should be: both clocks are then, and nothing is noticed.
func kernelClock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
