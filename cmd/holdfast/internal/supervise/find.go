//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// NotStarted is the error of a command that could not be started.
type NotStarted struct {
	Code int // exit code, as in shells: 127 if there is no such program, 126 if it cannot be run
	Err  error
}

func (e *NotStarted) Error() string { return e.Err.Error() }

func (e *NotStarted) Unwrap() error { return e.Err }

// Find returns the path of a program as a shell would find it. Its error is a *NotStarted.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err != nil {
		code := 127
		if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EISDIR) {
			code = 126
		}
		var failed *exec.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return "", &NotStarted{code, fmt.Errorf("%q: %w", name, err)}
	}
	return path, nil
}
