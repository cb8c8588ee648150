//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// sizeOf is the size of a terminal; ok is false if f is none.
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
