package wait

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/protocol"
)

// ErrPanicked is the cause of the error of a request that a panic has interrupted.
var ErrPanicked = errors.New("the actor panicked")

// TooMany is the error of a request that would have to wait when Options.MaxWaiters requests are waiting.
func TooMany(waiting int) error {
	return fmt.Errorf("%w: %d wait already, Options.MaxWaiters allows no more", protocol.ErrTooManyWaiters, waiting)
}

// NotSet is the error of an acquire that needs a number which was never set, such as a semaphore's number of permits.
func NotSet(r *Request) error {
	return fmt.Errorf("%w: %s", protocol.ErrNotAcquired, r.Address.Kind.NotSet)
}
