// Package childproc runs code of a test binary in a child process. A test can then kill, stop or continue a client from outside, without giving
// the client a chance to call Close first.
//
// A test package registers entry functions by name. Its TestMain first calls Main (redistest.Main does
// that). Run starts the same binary again, with an environment variable that names the entry. In the
// child, Main runs that entry instead of the tests, and exits. Parent and child talk in lines over the
// child's standard input and output.
//
// On Linux a child dies with its parent, even when the parent is killed by SIGKILL.
package childproc

import (
	"fmt"
	"os"
)

// entryVar names the entry function in the environment of a child.
const entryVar = "HOLDFAST_TEST_CHILD"

var entries = map[string]func(){}

// Register makes entry available to Run under name. Call it from init or at the top of TestMain, before Main.
// It panics if the name is taken.
func Register(name string, entry func()) {
	if _, taken := entries[name]; taken {
		panic("childproc: entry registered twice: " + name)
	}
	entries[name] = entry
}

// Main runs the entry function in a child process, and exits with status 0. The environment names the function. If no function is registered under
// that name, Main exits with status 2. In a process that is not a child, Main returns at once.
func Main() {
	name, child := os.LookupEnv(entryVar)
	if !child {
		return
	}
	// A child of this child must not run the same entry.
	_ = os.Unsetenv(entryVar)
	entry, ok := entries[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "childproc: no entry is registered as %q\n", name)
		os.Exit(2)
	}
	entry()
	os.Exit(0)
}
