//go:build unix

// Package guard runs the guardian: a second process that kills a process group when a lease is about to end, even if the process that
// renews the lease has been stopped or killed.
//
// The guardian is this program, started again. It leads the process group that it guards, so the group's ID cannot be used by others, and
// nothing can join the group once the guardian has killed it: a command that would be started too late is not started.
package guard

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/kin"
)

// variable tells a process that it is a guardian. Its value is the mark of the run.
const variable = "HOLDFAST_GUARDIAN"

// The orders that a guardian gets: each is one byte and a number of eight bytes.
const (
	orderDeadline = 'd' // kill the processes of the run at this instant
	orderCommand  = 'c' // the process ID of the command
	orderAside    = 'a' // leave the group for the group with this ID
	orderSize     = 9
)

// sendWait is how long an order may take. A pipe is full only if the guardian has been stopped for very long.
const sendWait = 5 * time.Millisecond

// Guard is the guardian as its parent sees it. Its methods are not safe for concurrent use.
type Guard struct {
	PID    int // also the ID of the group
	orders *os.File
}

// Start starts a guardian and returns when it is ready. The caller waits for the process PID.
func Start(mark kin.Mark) (*Guard, error) {
	orders, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = orders.Close() }()
	ready, theirs, err := os.Pipe()
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	defer func() { _ = ready.Close() }()
	pid, err := spawn(mark, orders, theirs)
	_ = theirs.Close()
	if err == nil {
		if _, err = io.ReadFull(ready, make([]byte, 1)); err != nil {
			err = fmt.Errorf("it ended at once: %w", err)
		}
	}
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	return &Guard{PID: pid, orders: ours}, nil
}

func spawn(mark kin.Mark, orders, ready *os.File) (pid int, err error) {
	program, err := itself()
	if err != nil {
		return 0, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }()
	return syscall.ForkExec(program, []string{"holdfast-guardian"}, &syscall.ProcAttr{
		Dir: "/", Env: environment(mark), Files: []uintptr{orders.Fd(), ready.Fd(), null.Fd()},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}

// environment is that of the guardian. It may itself be the guardian of a run inside another.
func environment(mark kin.Mark) (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, variable+"=") {
			env = append(env, v)
		}
	}
	return append(env, variable+"="+string(mark))
}

// itself is the path of this program. On Linux it also works after the file has been replaced.
func itself() (string, error) {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link, nil
	}
	return os.Executable()
}

// Deadline has the run killed at an instant of Now, unless a later call moves it. It reports whether the guardian got the message.
func (g *Guard) Deadline(at time.Duration) bool { return g.send(orderDeadline, int64(at)) }

// Command tells the guardian the process ID of the command, which may leave the group.
func (g *Guard) Command(pid int) { g.send(orderCommand, int64(pid)) }

// StepAside has the guardian leave the group, which it still guards, so that the group is gone when all others have left it.
func (g *Guard) StepAside() { g.send(orderAside, int64(syscall.Getpgrp())) }

// End ends the guardian, and with it everything that is left of the group. The caller waits for the process PID.
func (g *Guard) End() {
	_ = syscall.Kill(-g.PID, syscall.SIGKILL)
	_ = syscall.Kill(g.PID, syscall.SIGKILL) // it may have stepped aside
	g.Forget()
}

// Forget releases what the caller has of a guardian that has ended.
func (g *Guard) Forget() { _ = g.orders.Close() }

// send waits for nobody: the guardian may have been killed or stopped. An order is written as a whole or not at all.
func (g *Guard) send(what byte, value int64) bool {
	_ = g.orders.SetWriteDeadline(time.Now().Add(sendWait))
	_, err := g.orders.Write(binary.NativeEndian.AppendUint64([]byte{what}, uint64(value)))
	return err == nil
}
