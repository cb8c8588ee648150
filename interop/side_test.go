package interop

import (
	"context"
	"time"
)

// side is one of the two sides: our runtime in this process, or a Redisson client in the JVM.
type side interface {
	String() string
	// party returns a new contender on this side. Each contender is a separate owner.
	party(k kind, name string) party
	// set sets the permits of a semaphore or the count of a latch, and does nothing for a lock.
	set(ctx context.Context, k kind, name string, n int) error
	// oust frees the lock of a party, which may be on either side.
	oust(ctx context.Context, k kind, name string, holder party) error
	// rounds takes the lock n times, and each time increments or reads the number in a file.
	rounds(ctx context.Context, k kind, name string, n int, f *files) error
}

// party acquires one lock, and releases it.
type party interface {
	// take waits until the party holds the lock. If lease is 0, the watchdog renews the party's lease.
	take(ctx context.Context, lease time.Duration) error
	// try waits for the lock for at most the time `wait`, and reports whether the party got it.
	try(ctx context.Context, wait time.Duration) (bool, error)
	give(ctx context.Context) error
	// held reports whether the party holds the lock, as far as its side knows.
	held(ctx context.Context) (bool, error)
	// id is the id of the permit or of our lease; "" for a Redisson lock or a counter.
	id() string
}
