package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/lease"
)

// Lease represents a lock that is held. It is returned by a successful acquire. Safe for concurrent use.
//
// Release every lease. A lease is dropped when nothing refers to it, to a channel from Done, or to a context from Context. Once the
// garbage collector has found a dropped lease, the runtime reports a LeaseLeaked event, and releases the lock unless the lease is a
// fixed one (WithLease).
type Lease struct {
	engine *actors.Engine
	name   string
	hold   *lease.Hold
	group  *group // set for the lease of a multi lock, instead of engine and hold

	guard atomic.Pointer[actors.Guard] // notices when the user drops the lease; nil if the lease needs no guard or was released
}

// unguard removes the guard, so that a drop of the lease is no longer noticed. It is called when the lease is being released.
func (l *Lease) unguard() {
	if guard := l.guard.Swap(nil); guard != nil {
		guard.Free()
	}
}

// Release releases the lock. It works even if ctx has ended: it then waits up to 500 ms for Redis.
//
// If Redis does not confirm the release within Options.Lease/3 (at least 1 s, at most 10 s), Release returns an error that wraps the cause. The
// lease has then ended for the caller, and the runtime retries the release until the deadline of the lease. A second Release returns ErrNotHeld,
// releasing a lost lease returns ErrLeaseLost, and Release after Close returns nil.
//
// The lease of a multi lock releases all members at the same time and joins their errors. The lease of a red lock counts as released
// when a majority confirms.
func (l *Lease) Release(ctx context.Context) error {
	l.unguard()
	if l.group != nil {
		return l.group.release(ctx)
	}
	return l.engine.Release(ctx, l.hold)
}

// startRelease begins to release a member's lease; the function that it returns waits for the result.
func (l *Lease) startRelease() func(ctx context.Context) error { return l.engine.StartRelease(l.hold) }

// startExtend begins to extend a member's lease; the function that it returns waits for the result.
func (l *Lease) startExtend(d time.Duration) func(ctx context.Context) error {
	return l.engine.StartExtend(l.hold, d)
}

// Extend sets the end of a fixed lease (WithLease) to now + d, even if the lease would have lasted longer. d is 50 ms to 24 h. For a lease that
// the watchdog renews, Extend fails with ErrInvalid. If Redis does not confirm within Options.Lease/3 (at least 1 s, at most 10 s), the error
// wraps the cause, and the lease ends at the old or the new end, whichever is earlier. For a multi lock, Extend extends all members. For a red
// lock, a majority is enough.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	if l.group != nil {
		return l.group.extend(ctx, d)
	}
	return l.engine.Extend(ctx, l.hold, d)
}

// ending returns the record of whether, and why, the lease has ended.
func (l *Lease) ending() *lease.Ending {
	if l.group != nil {
		return &l.group.Ending
	}
	return &l.hold.Ending
}

// Done returns a channel that is closed when the lease has ended: by release, loss or Close.
func (l *Lease) Done() <-chan struct{} { return l.ending().Done() }

// Err returns nil while the lease is held; after that ErrNotHeld (released), ErrLeaseLost or ErrClosed.
func (l *Lease) Err() error { return l.ending().Err() }

// Valid reports whether the lease is still valid by the clock. It returns false from the local deadline on, even if no loss has been noticed yet.
// On Linux the clock includes the time for which the machine was suspended. If the deadline has passed during a suspension, Done is closed within
// a second of the resumption.
func (l *Lease) Valid() bool {
	if l.group != nil {
		return l.group.valid()
	}
	return l.hold.Valid(l.engine.Now())
}

// ExpiresAt returns the local deadline, which is earlier than the server's expiry. Each renewal moves the deadline. Once the lease has ended,
// ExpiresAt returns the zero time. For a multi lock, it returns the earliest deadline of the members. For a red lock, it returns the latest instant
// at which a majority of the locks is still valid.
func (l *Lease) ExpiresAt() time.Time {
	if l.group != nil {
		return l.group.expiresAt()
	}
	until := l.hold.Until()
	if until == 0 {
		return time.Time{}
	}
	return l.engine.Time(until)
}

// Context returns a context that ends when the lease or parent ends. If the lease ends first, the context's cause is the lease's Err. Call
// cancel when done.
func (l *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return l.ending().Context(parent)
}

// Token returns the fencing token of a fenced lock, and 0 for other kinds. For a multi lock, Token returns 0; each fenced member has its own token
// (see Members).
func (l *Lease) Token() int64 {
	if l.group != nil {
		return 0
	}
	return l.hold.Token
}

// ID returns the owner field in Redis. Local holders of one turn (see Handoff) have the same ID. For a permit, ID returns the permit's id. For a
// multi lock it returns the members' IDs, separated by commas.
func (l *Lease) ID() string {
	if l.group != nil {
		return l.group.id()
	}
	return l.hold.Grant.ID
}

// Members returns the leases of a multi lock's members, in the order in which the locks were given to Multi. For a red lock, it returns only the
// leases that were acquired; for a single lock, it returns nil. Each member has its own Token, ID and deadline. Releasing a member ends the whole
// lease if fewer members are left than the lock needs.
func (l *Lease) Members() []*Lease {
	if l.group == nil {
		return nil
	}
	members := make([]*Lease, len(l.group.members))
	for i, m := range l.group.members {
		members[i] = &Lease{engine: m.engine, name: m.name, hold: m.hold}
		members[i].guard.Store(l.guard.Load()) // while the user keeps a member, the whole lease does not count as dropped
	}
	return members
}

// Name returns the lock's name. For a multi lock it is the members' names, each once, separated by commas.
func (l *Lease) Name() string { return l.name }

// during calls fn, and releases the lease when fn has returned or panicked. The context that fn gets is derived from inner, and also ends with the
// lease. ctx is used only for the release.
func (l *Lease) during(ctx, inner context.Context, fn func(ctx context.Context) error) (err error) {
	inner, cancel := l.ending().Bound(context.WithValue(inner, leaseKey{}, l))
	defer func() {
		closed := l.Err()
		cancel()
		err = actors.Join(err, l.Release(ctx))
		if errors.Is(closed, ErrClosed) { // Release itself returns nil after Close
			err = actors.Join(err, fmt.Errorf("holdfast: lock %s: %w before the function had returned", lease.Quoted(l.name), ErrClosed))
		}
	}()
	return fn(inner)
}

type leaseKey struct{}

// LeaseFromContext returns the lease under which a function runs, for example to read the fencing token. ctx must be the context that Do or an
// Election passed to the function, or a context derived from it. For any other context, LeaseFromContext returns nil. In nested calls of Do, it
// returns the lease of the innermost call.
func LeaseFromContext(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// notAcquired returns the error for an acquire that was granted although the caller had cancelled it.
func (l *Lease) notAcquired(cause error) error {
	return fmt.Errorf("holdfast: acquire %q: %w: %w", l.Name(), ErrNotAcquired, cause)
}
