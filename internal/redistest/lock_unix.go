//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// lockFile locks the file, and reports whether nobody else has locked it.
func lockFile(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
