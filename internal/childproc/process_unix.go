//go:build unix

package childproc

import "syscall"

func (p *Process) suspend() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *Process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
