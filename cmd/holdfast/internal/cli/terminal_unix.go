//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
)

// sizeOf returns the size of a terminal; ok is false if f is not a terminal.
func sizeOf(f *os.File) (columns, rows int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	if size.Col == 0 || size.Row == 0 {
		return 80, 24, true
	}
	return int(size.Col), int(size.Row), true
}

// readKeys makes a terminal deliver each key immediately and without echo. Ctrl-C and Ctrl-Z still send signals.
func readKeys(f *os.File) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	if err != nil {
		return nil, err
	}
	now := *before
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(f.Fd()), setTermios, &now); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(int(f.Fd()), setTermios, before) }, nil
}

// terminalSignals returns two channels: one receives when the terminal's size has changed, the other when the user wants to suspend the
// program.
func terminalSignals() (resized, suspended chan os.Signal) {
	resized, suspended = make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	catchSuspensions(suspended)
	return resized, suspended
}

// catchSuspensions sends SIGTSTP to the channel when the user wants to suspend the program. The signal then no longer stops the program.
func catchSuspensions(suspended chan<- os.Signal) { signal.Notify(suspended, syscall.SIGTSTP) }

// leaveSuspensions ends catchSuspensions, and empties the channel.
func leaveSuspensions(suspended chan os.Signal) {
	signal.Stop(suspended)
	select {
	case <-suspended:
	default:
	}
}

// suspend stops the process group of this process, and returns when the group continues. If no shell could continue the group, suspend does not
// stop it. suspended is the channel of catchSuspensions.
func suspend(suspended chan<- os.Signal) { supervise.Suspend(suspended) }
