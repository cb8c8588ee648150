//go:build !linux

package childproc

import (
	"os/exec"
	"time"
)

// dieWithParent does nothing: only on Linux can a child be killed when its parent dies.
func dieWithParent(*exec.Cmd) {}

// awaitStopped does nothing: there is no portable way to see that a process is stopped.
func (p *Process) awaitStopped(time.Time) error { return nil }
