//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// lockFile tells whether nobody else has locked the file.
func lockFile(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
