package cli

import (
	"errors"

	"github.com/holdfast-go/holdfast"
)

// taken reports whether an acquire has failed because others hold the lock. If Redis could not be reached, the error matches ErrNotAcquired,
// too, but it also wraps the reason.
func taken(err error) bool {
	if !errors.Is(err, holdfast.ErrNotAcquired) {
		return false
	}
	_, busy := errors.AsType[*holdfast.BusyError](err)
	return busy || !another(err)
}

// another reports whether one of an error's chains ends with an error other than ErrNotAcquired.
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
