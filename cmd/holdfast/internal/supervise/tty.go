//go:build unix

package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// tty is the controlling terminal. The process group in the foreground may read from the terminal, and gets the signals of keys such as Ctrl-C.
type tty struct {
	fd     int
	is     bool // there is a controlling terminal
	wanted bool // whenever this process gets the foreground, it gives the foreground to the command's group
	given  bool // the command's group is in the foreground
}

// terminal returns the controlling terminal. If standard input or output is not that terminal, this process may be part of a pipeline in which
// another program, such as a pager, uses the terminal. In that case the command gets the foreground only after it has tried to use the terminal, and
// the kernel has stopped it for that.
func terminal() tty {
	for _, open := range []func() (int, error){
		func() (int, error) { return 0, nil },
		func() (int, error) { return unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0) },
	} {
		fd, err := open()
		if err == nil && isControlling(fd) {
			return tty{fd: fd, is: true, wanted: fd == 0 && isControlling(1)}
		}
	}
	return tty{}
}

func isControlling(fd int) bool {
	_, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil
}

// ours reports whether this process is in the foreground. It also stores the answer in t.given, because its callers start and give put the
// command's group into the foreground if the answer is true.
func (t *tty) ours() bool {
	if !t.is {
		return false
	}
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	t.given = err == nil && group == syscall.Getpgrp()
	return t.given
}

// nameGroup moves this process into a group of its own if the leader of its group is outside this container. A group from outside has no ID here,
// so the guardian could not join it, and nobody here could put it back into the foreground.
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

// give puts the group of the command into the foreground, if the command wants that and this process is in the foreground.
func (t *tty) give(group int) {
	if t.wanted && t.ours() {
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
