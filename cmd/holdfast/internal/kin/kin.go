//go:build unix

// Package kin finds the processes of a command that have left the command's process group. For example, timeout(1) and shells with job control create
// groups of their own.
//
// Each run of a command marks its processes with an environment variable, which their children inherit. Parent process IDs would not be
// enough, because an orphan gets a new parent. Processes in other sessions are daemons, and are ignored, unless the command itself leads the
// session.
package kin

import (
	"crypto/rand"
	"os"
	"strings"
)

// variable is the name of an environment variable. The value has the marks of all runs that a process belongs to, separated by commas; the last mark
// is that of the innermost run.
const variable = "HOLDFAST_RUN"

// Mark identifies a run.
type Mark string

// NewMark returns a mark that no other run has.
func NewMark() Mark { return Mark(rand.Text()) }

// Environment adds the mark to an environment, after the marks of the runs that this process belongs to.
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
	Group   int // process group of the run
	Command int // process ID of the command, which may lead its own session, or 0 if not yet known
}
