//go:build unix

package supervise

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
)

// reap handles all children that have ended or stopped: the command, the guardian, and orphans that this process has adopted.
func (r *run) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid <= 0:
			return
		case pid == r.guard.PID:
			r.guarded = status.Stopped()
		case pid == r.pid:
			r.changed(status)
		}
	}
}

func (r *run) changed(status syscall.WaitStatus) {
	switch {
	case status.Stopped() && r.tty.given:
		r.pause()
	case status.Stopped():
		if s := status.StopSignal(); s == syscall.SIGTTIN || s == syscall.SIGTTOU {
			r.tty.wanted, r.waits = true, true
		}
	case status.Signaled():
		// If this process was stopped until after the deadline, the guardian has killed the command. Once this process continues, it may find the
		// dead command before it looks at the clock. So the cause of the kill is determined here.
		if status.Signal() == syscall.SIGKILL && guard.Now() >= r.told {
			r.stop("the guardian has killed it, because the lease was about to end")
		}
		r.ended, r.result.Code = true, 128+int(status.Signal())
	case status.Exited():
		r.ended, r.result.Code = true, status.ExitStatus()
	}
}

// Orphans returns a channel that receives a signal when adopted processes may have ended. This process adopts orphans if it is process 1 of a
// container, or once Run has been called.
func Orphans() (ended <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGCHLD)
	return c, func() { signal.Stop(c) }
}

// Collect reaps adopted processes that have ended. It must not be called during Run.
func Collect() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if !errors.Is(err, syscall.EINTR) && (err != nil || pid <= 0) {
			return
		}
	}
}
