package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended returns how long the machine has been suspended since it was started: CLOCK_BOOTTIME is CLOCK_MONOTONIC plus that time. The monotonic
// clock is read last, so a pause between the readings makes the result smaller. Both clocks are read from the kernel, because in a testing/synctest
// bubble package time shows the bubble's clock.
func suspended() time.Duration {
	return kernelClock(unix.CLOCK_BOOTTIME) - kernelClock(unix.CLOCK_MONOTONIC)
}

// kernelClock reads a clock of the kernel, or returns 0 if the system call fails. Then both clocks are 0, and suspensions are not noticed.
func kernelClock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
