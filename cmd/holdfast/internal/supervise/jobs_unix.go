//go:build unix && !linux

package supervise

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// suspend stops the process group of this process, and returns when the group continues, or soon after. It stops the group only if the
// parent is a shell that can continue it. The kernel makes this check for SIGTSTP, but not for SIGSTOP. suspend sends SIGSTOP, because
// SIGTSTP no longer stops a process that has caught it.
func suspend() {
	signal.Ignore(syscall.SIGTSTP)
	ours, err1 := unix.Getsid(0)
	theirs, err2 := unix.Getsid(syscall.Getppid())
	group, err3 := syscall.Getpgid(syscall.Getppid())
	if err1 == nil && err2 == nil && err3 == nil && ours == theirs && group != syscall.Getpgrp() {
		_ = syscall.Kill(0, syscall.SIGSTOP)
	}
}

// unstopped calls f while this process ignores SIGTTOU. The kernel sends SIGTTOU to stop a process that changes the terminal from the background.
func unstopped(f func()) {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	f()
}

// Unstopped calls f. Unlike on Linux, a write to the terminal from the background may stop this process. To prevent that, this process would have to
// ignore SIGTTOU, but then the command would ignore SIGTTOU, too.
func Unstopped(f func()) { f() }
