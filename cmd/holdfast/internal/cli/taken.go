package cli

import (
	"errors"

	"github.com/holdfast-go/holdfast"
)

// taken reports whether an acquire has failed because others hold the lock. The error for an unreachable Redis matches
// ErrNotAcquired, too, but wraps its cause as well.
func taken(err error) bool {
	if !errors.Is(err, holdfast.ErrNotAcquired) {
		return false
	}
	_, busy := errors.AsType[*holdfast.BusyError](err)
	return busy || !another(err)
}

// another reports whether any of the innermost errors that err wraps is not ErrNotAcquired. There are several if an error on the way wraps more
// than one error.
func another(err error) bool {
	switch wrapped := err.(type) { //nolint:errorlint // It walks the chains.
	case interface{ Unwrap() error }:
		return another(wrapped.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range wrapped.Unwrap() {
			if another(e) {
				return true
			}
		}
		return false
	}
	return err != holdfast.ErrNotAcquired //nolint:errorlint // It is the end of a chain.
}
