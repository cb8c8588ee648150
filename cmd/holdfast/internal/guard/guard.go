//go:build unix

// Package guard runs the guardian: a second process that kills a process group when a lease is about to end, even if the process that
// renews the lease has been stopped or killed. A run is one execution of a command, with all processes that belong to it. Each run has a mark: see
// package kin.
//
// The guardian executes the same program as its parent. It leads the process group that it guards, so the group's ID cannot be reused. After the
// guardian has killed the group, no process can join the group. So if the parent then tries to start a command in the group, the start fails.
package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/kin"
)

// variable is the environment variable of a guardian. Its value is the mark of the run.
const variable = "HOLDFAST_GUARDIAN"

// The orders to a guardian. An order is one of these bytes, followed by a number of eight bytes: an instant or an ID.
const (
	orderDeadline = 'd' // kill the processes of the run at this instant
	orderCommand  = 'c' // the command has this process ID
	orderAside    = 'a' // leave the guarded group, and join the group with this ID
	orderSize     = 9
)

// Guard is the parent's handle to its guardian. Its methods are not safe for concurrent use.
type Guard struct {
	PID    int // also the ID of the group
	orders *os.File
}

// Start starts a guardian and returns when it is ready. The caller must reap the process PID.
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

// environment returns the environment of the guardian. It keeps the marks of outer runs: if this run is inside another run, the guardian belongs to
// both.
func environment(mark kin.Mark) (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, variable+"=") {
			env = append(env, v)
		}
	}
	return append(env, variable+"="+string(mark))
}

// itself returns the path of this program. On Linux the path works even after the program's file has been replaced.
func itself() (string, error) {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link, nil
	}
	return os.Executable()
}

// Deadline orders the guardian to kill the run at this instant, on the clock of Now. A later call moves the deadline. Deadline reports
// whether the order was sent.
func (g *Guard) Deadline(at time.Duration) bool { return g.send(orderDeadline, int64(at)) }

// Command tells the guardian the process ID of the command. The guardian needs it in case the command leaves the group.
func (g *Guard) Command(pid int) { g.send(orderCommand, int64(pid)) }

// StepAside makes the guardian leave the group. The guardian continues to guard the group, but the group is gone as soon as its other processes have
// ended. Call StepAside after the command has ended: from then on the guardian does not kill the process with the command's ID, because the ID may be
// reused.
func (g *Guard) StepAside() { g.send(orderAside, int64(syscall.Getpgrp())) }

// End kills the guardian and all processes that are left in the group. The caller must reap the process PID.
func (g *Guard) End() {
	_ = syscall.Kill(-g.PID, syscall.SIGKILL)
	_ = syscall.Kill(g.PID, syscall.SIGKILL) // the guardian may have left the group
	g.Forget()
}

// Forget closes the pipe to a guardian that has ended.
func (g *Guard) Forget() { _ = g.orders.Close() }

// send writes an order to the guardian, either as a whole or not at all. It does not block. If the pipe is full, the order is not sent; the pipe is
// full only if the guardian has been stopped for a very long time. A short write deadline would be no substitute: on a busy machine, the deadline
// would sometimes pass before the write, and the order would be lost.
func (g *Guard) send(what byte, value int64) (sent bool) {
	order := binary.NativeEndian.AppendUint64([]byte{what}, uint64(value))
	pipe, err := g.orders.SyscallConn()
	if err != nil {
		return false
	}
	_ = pipe.Write(func(fd uintptr) (done bool) { // the write end of os.Pipe does not block
		n, err := unix.Write(int(fd), order)
		sent = n == orderSize
		return !errors.Is(err, unix.EINTR)
	})
	return sent
}
