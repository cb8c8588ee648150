//go:build !unix

// Package supervise runs a command while a lease lasts. It needs a Unix system.
package supervise

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Lease is the lease under which a command runs.
type Lease interface {
	Done() <-chan struct{}
	Err() error
	ExpiresAt() time.Time
}

// Command is a command that runs under a lease.
type Command struct {
	Path         string
	Args, Env    []string
	Lease, Grace time.Duration
	Signals      <-chan os.Signal
	Tell         func(text string)
}

// Result says how a command has ended.
type Result struct {
	Code     int
	Stopped  bool
	Received syscall.Signal
}

// NotStarted is the error of a command that could not be started.
type NotStarted struct {
	Code int
	Err  error
}

func (e *NotStarted) Error() string { return e.Err.Error() }

var errUnix = &NotStarted{126, errors.New("running commands needs a Unix system")}

// Signals returns the signals that end a wait.
func Signals() (received <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	return c, func() { signal.Stop(c) }
}

// Orphans returns no channel.
func Orphans() (ended <-chan os.Signal, stop func()) { return nil, func() {} }

// Unstopped calls f.
func Unstopped(f func()) { f() }

// Collect does nothing.
func Collect() {}

// Ends reports whether a signal asks a process to end.
func Ends(os.Signal) bool { return true }

// Find fails.
func Find(string) (string, error) { return "", errUnix }

// Run fails.
func (c *Command) Run(Lease) (Result, error) { return Result{}, errUnix }
