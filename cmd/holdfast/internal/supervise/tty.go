//go:build unix

package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// tty is the terminal at standard input. The process group in the foreground may read from it, and gets the signals that its keys send.
type tty struct {
	fd    int
	is    bool // standard input is the controlling terminal
	given bool // the command's group is in the foreground
}

func terminal() tty {
	_, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return tty{fd: 0, is: err == nil}
}

// ours reports whether this process is in the foreground, and sets given accordingly.
func (t *tty) ours() bool {
	if !t.is {
		return false
	}
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	t.given = err == nil && group == syscall.Getpgrp()
	return t.given
}

// nameGroup moves this process into a group of its own if its group has no ID in this container, because the group's leader is outside. The
// guardian could not join such a group, and the group could not be put back into the foreground.
func (t *tty) nameGroup() {
	if syscall.Getpgrp() != 0 {
		return
	}
	foreground := t.ours()
	t.given = false
	if err := syscall.Setpgid(0, 0); err == nil && foreground {
		t.set(syscall.Getpgrp())
	}
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

func (t *tty) set(group int) {
	unstopped(func() { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) })
}
