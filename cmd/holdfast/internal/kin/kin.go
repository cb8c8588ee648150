//go:build unix

// Package kin finds the processes of a run of a command that have left its process group, as timeout(1) and the jobs of shells do.
//
// A run marks its processes with a variable in their environment, which their children inherit. Parent process IDs would not do, because
// an orphan gets a new parent. Processes in a session of their own are daemons, and are left alone.
package kin

import (
	"crypto/rand"
	"os"
	"strings"
)

// variable has the marks of all runs that a process belongs to, separated by commas, the innermost last.
const variable = "HOLDFAST_RUN"

// Mark identifies a run.
type Mark string

// NewMark returns a mark that no other run has.
func NewMark() Mark { return Mark(rand.Text()) }

// Environment returns an environment with the mark, and with those of the runs that this process belongs to.
func (m Mark) Environment(env []string) []string {
	marked := make([]string, 0, len(env)+1)
	for _, v := range env {
		if !strings.HasPrefix(v, variable+"=") {
			marked = append(marked, v)
		}
	}
	value := string(m)
	if outer := os.Getenv(variable); outer != "" {
		value = outer + "," + value
	}
	return append(marked, variable+"="+value)
}

// Run is a run of a command.
type Run struct {
	Mark    Mark
	Group   int // of its processes
	Command int // which may lead a session of its own
}
