package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors"
)

// Lease is what you hold: it exists only once a lock was acquired. Safe for concurrent use.
type Lease struct {
	engine *actors.Engine
	name   string
	hold   actors.Hold
}

// Release gives the lease back. It works when ctx has ended already: it then has 500 ms of its own. When Redis does not confirm for
// Options.Lease/3 (1 s to 10 s), the lease is over for the caller all the same and the error wraps the cause; the runtime goes on
// trying until the deadline.
// A second Release is ErrNotHeld; the release of a lost lease is ErrLeaseLost; after Close it is nil.
func (l *Lease) Release(ctx context.Context) error { return l.engine.Release(ctx, &l.hold) }

// Extend makes a lease that was acquired WithLease last from now to now + d, also when that is shorter. d is 50 ms to 24 h.
// A lease that the watchdog renews cannot be extended: ErrInvalid. When Redis does not confirm for Options.Lease/3 (1 s to 10 s), the
// error wraps the cause and the shorter of the two leases counts.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	return l.engine.Extend(ctx, &l.hold, d)
}

// Done is closed when the lease has ended: by release, loss or Close.
func (l *Lease) Done() <-chan struct{} { return l.hold.Done() }

// Err is nil while the lease is held, then ErrNotHeld (released), ErrLeaseLost or ErrClosed.
func (l *Lease) Err() error { return l.hold.Err() }

// Valid looks at the clock now: it is false from the local deadline on, even when nobody has noticed the loss yet. On Linux the
// clock counts the time that the machine was suspended; Done is then closed within a second of its waking.
func (l *Lease) Valid() bool { return l.hold.Valid(l.engine.Now()) }

// ExpiresAt is the local deadline, earlier than the server's expiry; a renewal moves it. Once the lease has ended it is the zero time.
func (l *Lease) ExpiresAt() time.Time {
	until := l.hold.Until()
	if until == 0 {
		return time.Time{}
	}
	return l.engine.Time(until)
}

// Context returns a context that ends with the lease, or with parent. Its cause is then the lease's Err. Call cancel when done.
func (l *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	forget := l.hold.OnEnd(func(err error) { cancel(err) })
	stop := context.AfterFunc(parent, forget) // a lease may outlive many contexts
	return ctx, func() {
		cancel(context.Canceled)
		forget()
		stop()
	}
}

// Token is the fencing token of a fenced lock; 0 for other kinds.
func (l *Lease) Token() int64 { return l.hold.Token() }

// ID is the owner field in Redis. Local holders of one turn share it.
func (l *Lease) ID() string { return l.hold.ID() }

// Name is the lock's name.
func (l *Lease) Name() string { return l.name }

// notAcquired is the error of a grant that was given up.
func (l *Lease) notAcquired(cause error) error {
	return fmt.Errorf("holdfast: acquire %q: %w: %w", l.Name(), ErrNotAcquired, cause)
}
