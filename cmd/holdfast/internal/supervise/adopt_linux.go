package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of its descendants when they become orphans, so that it can reap them.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// dieWithParent makes the kernel kill the command when the thread that starts the command ends, even if that thread is killed by SIGKILL.
func dieWithParent(sys *syscall.SysProcAttr) { sys.Pdeathsig = syscall.SIGKILL }
