package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes the guardian at a deadline. If the deadline passes while the machine is suspended, the alarm wakes the guardian as soon as the
// machine resumes. For that the alarm uses a timer, because the timeout of poll stands still during a suspension.
type alarm struct{ timer int }

func newAlarm() alarm {
	timer, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		timer = -1 // poll ignores negative descriptors
	}
	return alarm{timer}
}

// wait returns at the deadline, or earlier if there is something to read. Without a timer, it returns after lookEvery at the latest.
func (a alarm) wait(from int, deadline time.Duration) {
	timeout := lookAgain(deadline)
	if a.timer >= 0 {
		at := &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(deadline))}
		if unix.TimerfdSettime(a.timer, unix.TFD_TIMER_ABSTIME, at, nil) == nil {
			timeout = -1
		}
	}
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(from), Events: unix.POLLIN}, {Fd: int32(a.timer), Events: unix.POLLIN}}, timeout)
}
