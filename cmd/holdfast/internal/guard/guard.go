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
	"os/signal"
	"syscall"
	"time"
)

// variable tells a process that it is a guardian.
const variable = "HOLDFAST_GUARDIAN"

// lookEvery limits how long after a suspension of the machine the deadline is noticed. Timers stand still meanwhile.
const lookEvery = 100 * time.Millisecond

// The orders that a guardian gets: each is one byte and a number of eight bytes.
const (
	orderDeadline = 'd' // kill the group at this instant
	orderAside    = 'a' // leave the group for the group with this ID
)

type order struct {
	what  byte
	value int64
}

// Guard is the guardian as its parent sees it. Its methods are not safe for concurrent use.
type Guard struct {
	PID    int // also the ID of the group
	orders *os.File
}

// Start starts a guardian and returns when it is ready. The caller waits for the process PID.
func Start() (*Guard, error) {
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
	pid, err := spawn(orders, theirs)
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

func spawn(orders, ready *os.File) (pid int, err error) {
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
		Dir: "/", Env: append(os.Environ(), variable+"=1"), Files: []uintptr{orders.Fd(), ready.Fd(), null.Fd()},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}

// itself is the path of this program. On Linux it also works after the file has been replaced.
func itself() (string, error) {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link, nil
	}
	return os.Executable()
}

// Deadline has the group killed at an instant of Now, unless a later call moves it.
func (g *Guard) Deadline(at time.Duration) { g.send(orderDeadline, int64(at)) }

// StepAside has the guardian leave the group, which it still guards, so that the group is gone when all others have left it.
func (g *Guard) StepAside() { g.send(orderAside, int64(syscall.Getpgrp())) }

// End ends the guardian, and with it everything that is left of the group. The caller waits for the process PID.
func (g *Guard) End() {
	_ = syscall.Kill(-g.PID, syscall.SIGKILL)
	_ = syscall.Kill(g.PID, syscall.SIGKILL) // it may have stepped aside
	_ = g.orders.Close()
}

// send ignores errors: a guardian that has been killed cannot be told anything.
func (g *Guard) send(what byte, value int64) {
	_, _ = g.orders.Write(binary.NativeEndian.AppendUint64([]byte{what}, uint64(value)))
}

// IsGuardian reports whether this process was started as one.
func IsGuardian() bool { return os.Getenv(variable) != "" && os.Args[0] == "holdfast-guardian" }

// Main is what a guardian does.
func Main() {
	signal.Ignore() // all: the group gets signals that are meant for the command
	received := make(chan order)
	go receive(os.Stdin, received)
	_, _ = os.Stdout.Write([]byte{0})
	_ = os.Stdout.Close()
	watch(received)
	_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL) // and this process, too, unless it has stepped aside
}

// receive closes the channel when the parent has ended.
func receive(from io.Reader, to chan<- order) {
	defer close(to)
	var b [9]byte
	for {
		if _, err := io.ReadFull(from, b[:]); err != nil {
			return
		}
		to <- order{b[0], int64(binary.NativeEndian.Uint64(b[1:]))}
	}
}

// watch returns when the group must be killed: at the deadline, or when the parent has ended.
func watch(received <-chan order) {
	deadline := time.Duration(1<<63 - 1)
	timer := time.NewTimer(lookEvery)
	for {
		left := deadline - Now()
		if left <= 0 {
			return
		}
		timer.Reset(min(left, lookEvery))
		select {
		case <-timer.C:
		case o, ok := <-received:
			switch {
			case !ok:
				return
			case o.what == orderAside:
				_ = syscall.Setpgid(0, int(o.value))
			case o.what == orderDeadline:
				deadline = time.Duration(o.value)
			}
		}
	}
}
