package interop

import (
	"context"
	"time"
)

// side is one of the two: our runtime in this process, or a client of Redisson in its JVM.
type side interface {
	String() string
	// party makes a contender on this side. Each is an owner of its own.
	party(k kind, name string) party
	// set gives a semaphore its permits or a latch its count; of a lock there is nothing to set.
	set(ctx context.Context, k kind, name string, n int) error
	// oust frees the lock of a party, no matter on which side that is.
	oust(ctx context.Context, k kind, name string, holder party) error
	// rounds makes n rounds over the number in a file.
	rounds(ctx context.Context, k kind, name string, n int, f *files) error
}

// party takes one lock, and gives it back.
type party interface {
	// take waits until it is held. A lease of 0 is the watchdog's.
	take(ctx context.Context, lease time.Duration) error
	// try waits for that long at most.
	try(ctx context.Context, wait time.Duration) (bool, error)
	give(ctx context.Context) error
	// held tells whether this side takes it for held.
	held(ctx context.Context) (bool, error)
	// id is the permit's.
	id() string
}
