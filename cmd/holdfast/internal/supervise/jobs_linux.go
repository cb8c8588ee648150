package supervise

import (
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// suspend stops the process group of this process as SIGTSTP does, and returns when the group continues. It must be called on the main thread.
//
// Once a process has caught SIGTSTP, that signal no longer stops it, not even after signal.Reset: Go's handler stays installed and does nothing. So
// suspend restores the default action with a system call. Then it sends the signal to its own thread, which stops before the call returns. A signal
// to the process could arrive later, at another thread. If no shell could continue the group, the kernel does not stop the group.
func suspend() {
	signal.Ignore(syscall.SIGTSTP)
	_ = syscall.Kill(0, syscall.SIGTSTP) // the other processes of the group
	var standard [16]uint64              // all zeros mean the default action in the kernel's struct sigaction, whatever its layout
	const maskSize = 8
	_, _, failed := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(syscall.SIGTSTP), uintptr(unsafe.Pointer(&standard)), 0, maskSize, 0, 0)
	if failed == 0 {
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), syscall.SIGTSTP)
	}
}

// Unstopped calls f, which may write to the terminal from the background. Such a write does not stop this process, even if the terminal is set to
// stop processes that write from the background (stty tostop). The calling goroutine must be locked to its thread.
func Unstopped(f func()) { unstopped(f) }

// unstopped calls f with SIGTTOU blocked on this thread. The kernel sends SIGTTOU to stop a process that changes the terminal from the background.
func unstopped(f func()) {
	var blocked, before unix.Sigset_t
	const bits = 8 * unsafe.Sizeof(blocked.Val[0])
	n := uintptr(syscall.SIGTTOU - 1)
	blocked.Val[n/bits] |= 1 << (n % bits)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &before) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	}
	f()
}
