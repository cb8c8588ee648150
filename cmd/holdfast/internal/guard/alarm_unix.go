//go:build unix && !linux

package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes the guardian at a deadline.
type alarm struct{}

func newAlarm() alarm { return alarm{} }

// wait returns at the deadline, or earlier if there is something to read or lookEvery has passed.
func (alarm) wait(from int, deadline time.Duration) {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(from), Events: unix.POLLIN}}, lookAgain(deadline))
}
