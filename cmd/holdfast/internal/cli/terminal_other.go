//go:build !unix

package cli

import (
	"errors"
	"os"
)

// sizeOf returns false, because holdfast does not support terminals on this system.
func sizeOf(*os.File) (columns, rows int, ok bool) { return 0, 0, false }

func readKeys(*os.File) (restore func(), err error) { return nil, errors.ErrUnsupported }

func terminalSignals() (resized, suspended chan os.Signal) { return nil, nil }

func catchSuspensions(chan<- os.Signal) {}

func leaveSuspensions(chan os.Signal) {}

func suspend(chan<- os.Signal) {}
