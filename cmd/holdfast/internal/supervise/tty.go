//go:build unix

package supervise

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// tty is the terminal at standard input. The process group in its foreground may read from it, and gets the signals of its keys.
type tty struct {
	fd    int
	is    bool // standard input is the controlling terminal
	given bool // to the group of the command
}

func terminal() tty {
	_, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return tty{fd: 0, is: err == nil}
}

// ours reports whether this process is in the foreground.
func (t *tty) ours() bool {
	if !t.is {
		return false
	}
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	t.given = err == nil && group == syscall.Getpgrp()
	return t.given
}

// give puts the group of the command into the foreground, if this process is there.
func (t *tty) give(group int) {
	if t.ours() {
		t.set(group)
	}
}

// take puts this process back into the foreground.
func (t *tty) take() {
	if t.given {
		t.given = false
		t.set(syscall.Getpgrp())
	}
}

// set ignores SIGTTOU meanwhile, by which the kernel would stop a process that is not in the foreground.
func (t *tty) set(group int) {
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
	signal.Reset(syscall.SIGTTOU)
}
