package holdfast

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/clock"
)

// NewWithClock is New with a clock of the test's.
func NewWithClock(client redis.UniversalClient, options Options, clock clock.Clock) (*Runtime, error) {
	return newRuntime(client, options, actors.Seams{Clock: clock})
}

// NewTwin is New with an identity that another runtime may have too: its UUID, and the number that it counts from.
func NewTwin(client redis.UniversalClient, options Options, id string, first uint64) (*Runtime, error) {
	return newRuntime(client, options, actors.Seams{ID: id, First: first})
}

// NewWithJitter is New with a jitter of the test's: it is called on lock actors, among others.
func NewWithJitter(client redis.UniversalClient, options Options, jitter func(time.Duration) time.Duration) (*Runtime, error) {
	return newRuntime(client, options, actors.Seams{Jitter: jitter})
}

// What a red lock reckons with.
var (
	TryTime  = tryTime
	Validity = validity
)

// EvenOut is what Multi does with fixed leases when it has them all.
func EvenOut(ctx context.Context, fixed time.Duration, leases []*Lease) {
	(&plan{fixed: fixed}).evenOut(ctx, leases)
}
