package holdfast

import (
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors"
)

// NewWithClock is New with a clock of the test's.
func NewWithClock(client redis.UniversalClient, options Options, clock actors.Clock) (*Runtime, error) {
	return newRuntime(client, options, seams{clock: clock})
}
