package wait

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/protocol"
)

// ErrPanicked is why a request is refused that a panic has interrupted.
var ErrPanicked = errors.New("the actor panicked")

// TooMany is why an acquire is refused when there are as many waiters as Options.MaxWaiters allows.
func TooMany(waiting int) error {
	return fmt.Errorf("%w: %d wait already, Options.MaxWaiters allows no more", protocol.ErrTooManyWaiters, waiting)
}

// NotSet is why nothing can be acquired of what somebody has to set first.
func NotSet(r *Request) error {
	return fmt.Errorf("%w: %s", protocol.ErrNotAcquired, r.Address.Kind.NotSet)
}
