//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
)

// Signals returns the signals that a command gets through this process. Signals that this process was started to ignore are not among
// them; the command ignores them, too.
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

// Ends tells whether a signal asks a process to end.
func Ends(s os.Signal) bool {
	for _, ending := range endings {
		if s == ending {
			return true
		}
	}
	return false
}

// pass passes a signal on. Those that keys send are for the group alone, as on a terminal.
func (r *run) pass(s syscall.Signal) {
	r.signal(s)
	if s == syscall.SIGTERM || s == syscall.SIGHUP {
		r.signalStrays(s, false)
	}
}

// signal reaches the whole group, and the command even if it has left the group.
func (r *run) signal(s syscall.Signal) {
	_ = syscall.Kill(-r.guard.PID, s)
	if !r.ended && r.pid != 0 {
		if group, err := syscall.Getpgid(r.pid); err == nil && group != r.guard.PID {
			_ = syscall.Kill(r.pid, s)
		}
	}
}

// signalStrays reaches the processes of the run that have left the group. With inner, it reaches those of a run inside this one, too.
func (r *run) signalStrays(s syscall.Signal, inner bool) {
	for _, pid := range r.kin.Strays(inner) {
		if pid != r.pid || r.ended {
			_ = syscall.Kill(pid, s)
		}
	}
}

// pause stops the process group of this process, as a shell expects when the command has stopped. The lease is then not renewed: if this
// process does not continue in time, the guardian kills the command. The kernel does not stop a group that nobody could continue.
func (r *run) pause() {
	r.tty.take()
	suspend()
	signal.Notify(r.jobs, syscall.SIGTSTP)
	r.resume()
}

func (r *run) resume() {
	r.look()
	if guard.Now() >= r.deadline {
		return // the command is dead, or about to be
	}
	r.tty.give(r.guard.PID)
	r.signal(syscall.SIGCONT)
}
