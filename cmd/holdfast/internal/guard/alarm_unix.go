//go:build unix && !linux

package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes the guardian at a deadline.
type alarm struct{}

func newAlarm() alarm { return alarm{} }

// wait returns when there is something to read, at the deadline, or after lookEvery, whichever comes first.
func (alarm) wait(from int, deadline time.Duration) {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(from), Events: unix.POLLIN}}, lookAgain(deadline))
}
