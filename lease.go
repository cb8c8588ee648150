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

// Lease is what you hold: it exists only once a lock was acquired. Safe for concurrent use.
//
// Release every lease. One that was dropped instead is noticed when the garbage collector has found it: a LeaseLeaked event reports it,
// and it is released, unless WithLease gave it a fixed length. A lease counts as dropped when nobody has it, nor
// a channel from Done, nor a context from Context.
type Lease struct {
	engine *actors.Engine
	name   string
	hold   *lease.Hold
	group  *group // of a multi lock; it has no engine and no hold then

	guard atomic.Pointer[actors.Guard] // notices when the user drops the lease; nil: it need not, or the lease was released
}

// unguard ends the watch for a lease that is dropped: it is being released.
func (l *Lease) unguard() {
	if guard := l.guard.Swap(nil); guard != nil {
		guard.Free()
	}
}

// Release gives the lease back. It works when ctx has ended already: it then has 500 ms of its own. When Redis does not confirm for
// Options.Lease/3 (1 s to 10 s), the lease is over for the caller all the same and the error wraps the cause; the runtime goes on
// trying until the deadline.
// A second Release is ErrNotHeld; the release of a lost lease is ErrLeaseLost; after Close it is nil. A multi lock's lease gives all
// members back at the same time and joins their errors; a red lock's counts as given back when a majority confirms.
func (l *Lease) Release(ctx context.Context) error {
	l.unguard()
	if l.group != nil {
		return l.group.release(ctx)
	}
	return l.engine.Release(ctx, l.hold)
}

// startRelease is Release of a member's lease: begun here, waited for by what is returned.
func (l *Lease) startRelease() func(ctx context.Context) error { return l.engine.StartRelease(l.hold) }

// startExtend is Extend of a member's lease likewise.
func (l *Lease) startExtend(d time.Duration) func(ctx context.Context) error {
	return l.engine.StartExtend(l.hold, d)
}

// Extend makes a lease that was acquired WithLease last from now to now + d, also when that is shorter. d is 50 ms to 24 h.
// A lease that the watchdog renews cannot be extended: ErrInvalid. When Redis does not confirm for Options.Lease/3 (1 s to 10 s), the
// error wraps the cause and the shorter of the two leases counts. A multi lock's lease extends all members, a red lock's a
// majority.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	if l.group != nil {
		return l.group.extend(ctx, d)
	}
	return l.engine.Extend(ctx, l.hold, d)
}

// ending tells that the lease has ended.
func (l *Lease) ending() *lease.Ending {
	if l.group != nil {
		return &l.group.Ending
	}
	return &l.hold.Ending
}

// Done is closed when the lease has ended: by release, loss or Close.
func (l *Lease) Done() <-chan struct{} { return l.ending().Done() }

// Err is nil while the lease is held, then ErrNotHeld (released), ErrLeaseLost or ErrClosed.
func (l *Lease) Err() error { return l.ending().Err() }

// Valid looks at the clock now: it is false from the local deadline on, even when nobody has noticed the loss yet. On Linux the
// clock counts the time that the machine was suspended; Done is then closed within a second of its waking.
func (l *Lease) Valid() bool {
	if l.group != nil {
		return l.group.valid()
	}
	return l.hold.Valid(l.engine.Now())
}

// ExpiresAt is the local deadline, earlier than the server's expiry; a renewal moves it. Once the lease has ended it is the zero
// time. Of a multi lock it is the earliest member's, of a red lock the latest instant at which a majority is still valid.
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

// Context returns a context that ends with the lease, or with parent. Its cause is then the lease's Err. Call cancel when done.
func (l *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return l.ending().Context(parent)
}

// Token is the fencing token of a fenced lock; 0 for other kinds. A multi lock has none, its Members have.
func (l *Lease) Token() int64 {
	if l.group != nil {
		return 0
	}
	return l.hold.Token
}

// ID is the owner field in Redis. Local holders of one turn share it. Of a multi lock it is the members', separated by commas.
func (l *Lease) ID() string {
	if l.group != nil {
		return l.group.id()
	}
	return l.hold.ID()
}

// Members are the leases of a multi lock's members, in the order in which the locks were given to Multi; of a red lock those that were
// acquired. Each has its own Token, ID and deadline. Releasing one of them ends the multi lock's lease when fewer than
// it needs are left. Members is nil for the lease of a single lock.
func (l *Lease) Members() []*Lease {
	if l.group == nil {
		return nil
	}
	members := make([]*Lease, len(l.group.members))
	for i, m := range l.group.members {
		members[i] = &Lease{engine: m.engine, name: m.name, hold: m.hold}
		members[i].guard.Store(l.guard.Load()) // whoever has one has the whole
	}
	return members
}

// Name is the lock's name. Of a multi lock it is the members' names, each once, separated by commas.
func (l *Lease) Name() string { return l.name }

// during calls fn with a context that ends with the lease and has what inner has, and releases the lease when fn has ended.
func (l *Lease) during(ctx, inner context.Context, fn func(ctx context.Context) error) (err error) {
	inner, cancel := l.ending().Bound(context.WithValue(inner, leaseKey{}, l))
	defer func() {
		closed := l.Err()
		cancel()
		err = actors.Join(err, l.Release(ctx))
		if errors.Is(closed, ErrClosed) { // its release says nothing about that
			err = actors.Join(err, fmt.Errorf("holdfast: lock %s: %w before the function had returned", actors.Quoted(l.name), ErrClosed))
		}
	}()
	return fn(inner)
}

type leaseKey struct{}

// LeaseFromContext is the innermost lease whose Do made ctx: that of its fencing token, for example. It is nil if there is none.
func LeaseFromContext(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// notAcquired is the error of a grant that was given up.
func (l *Lease) notAcquired(cause error) error {
	return fmt.Errorf("holdfast: acquire %q: %w: %w", l.Name(), ErrNotAcquired, cause)
}
