//go:build unix && !linux

package supervise

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// suspend stops the process group of this process, and returns when it continues, or soon after it. It does so only if the parent is a
// shell that can continue the group: SIGTSTP would see to that, but does not stop a process that has caught it before.
func suspend() {
	signal.Ignore(syscall.SIGTSTP)
	ours, err1 := unix.Getsid(0)
	theirs, err2 := unix.Getsid(syscall.Getppid())
	group, err3 := syscall.Getpgid(syscall.Getppid())
	if err1 == nil && err2 == nil && err3 == nil && ours == theirs && group != syscall.Getpgrp() {
		_ = syscall.Kill(0, syscall.SIGSTOP)
	}
}

// unstopped calls f while this process ignores SIGTTOU, by which the kernel stops a process that is not in the foreground.
func unstopped(f func()) {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	f()
}
