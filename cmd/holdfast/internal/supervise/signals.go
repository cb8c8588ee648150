//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
)

// Signals returns a channel of the signals that this process passes on to a command. It leaves out SIGINT and SIGHUP if they were ignored when
// this process started, because the command ignores them, too. A Go program cannot learn whether other signals were ignored.
func Signals() (received <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 32)
	for _, s := range append([]os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}, endings...) {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	// Without this, a write to a closed standard error would end this process.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return c, func() { signal.Stop(c); signal.Stop(broken) }
}

var endings = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// Ends reports whether a signal asks a process to end.
func Ends(s os.Signal) bool {
	for _, ending := range endings {
		if s == ending {
			return true
		}
	}
	return false
}

// pass passes a signal on to the group. SIGTERM and SIGHUP also go to strays: processes of the run that have left the group. pass does not send other
// signals to strays. A terminal does not do so either: for Ctrl-C, it sends SIGINT only to the group in the foreground. If the command has been
// stopped for using the terminal from the background, pass continues the command, so that the command can handle the signal.
func (r *run) pass(s syscall.Signal) {
	r.signal(s)
	if r.waits {
		r.signal(syscall.SIGCONT)
	}
	if s == syscall.SIGTERM || s == syscall.SIGHUP {
		r.signalStrays(s, false)
	}
}

// signal sends a signal to the whole group, and to the command even if it has left the group.
func (r *run) signal(s syscall.Signal) {
	_ = syscall.Kill(-r.guard.PID, s)
	if !r.ended && r.pid != 0 {
		if group, err := syscall.Getpgid(r.pid); err == nil && group != r.guard.PID {
			_ = syscall.Kill(r.pid, s)
		}
	}
}

// signalStrays sends a signal to the processes of the run that have left the group. If inner is true, it also signals the processes of inner runs.
func (r *run) signalStrays(s syscall.Signal, inner bool) {
	for _, pid := range r.kin.Strays(inner) {
		if pid != r.pid || r.ended {
			_ = syscall.Kill(pid, s)
		}
	}
}

// Suspend stops the process group of this process, and returns when the group continues. If no shell could continue the group, it is not stopped.
// caught is the channel that gets SIGTSTP. Suspend must be called on the main thread.
func Suspend(caught chan<- os.Signal) {
	suspend()
	signal.Notify(caught, syscall.SIGTSTP)
}

// pause stops the process group of this process. When a command stops, its shell expects the whole process group to stop. While this process is
// stopped, it does not renew the lease. If it does not continue in time, the guardian kills the command. If no shell could continue the group,
// Suspend does not stop the group.
func (r *run) pause() {
	r.tty.take()
	Suspend(r.jobs)
	r.resume()
}

func (r *run) resume() {
	r.look()
	if guard.Now() >= r.deadline {
		return // the command is dead, or will be killed at once
	}
	r.tty.give(r.guard.PID)
	r.signal(syscall.SIGCONT)
}
