// Holdfast is the command line of package holdfast: it runs commands under a lock, shows who holds which lock, and frees locks.
// "holdfast help" lists its commands; doc/command.md describes them.
package main

import (
	"os"
	"runtime"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
)

// On Linux the kernel kills the command when the thread that started it ends. So the main thread, which lives as long as the process, starts the
// command.
func init() { runtime.LockOSThread() }

func main() {
	if guard.IsGuardian() {
		guard.Main()
		return
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
