package holdfast

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Lock is a handle on the lock of one name. It holds nothing itself: what is held is a Lease. Safe for concurrent use.
type Lock struct {
	rt      *Runtime
	address *lease.Address
	bad     error // of the name
}

// State is what is known of a lock: Redis' view, and this process's waiters and leases.
type State = protocol.State

// Holder is one holder as Redis has it.
type Holder = protocol.Holder

func (rt *Runtime) lock(kind *scripts.Kind, name string) *Lock {
	address, err := rt.engine.Address(kind, name)
	return &Lock{rt: rt, address: &address, bad: err} // a lock actor keeps the address, not the handle
}

// Name is the name given to Runtime.Lock.
func (l *Lock) Name() string { return l.address.Name }

// PID is where to send protocol messages about this lock; they name kind and lock. It is good for the runtime's life and shared
// by many locks, and cannot be stopped. Package protocol says how to ask and what is answered.
func (l *Lock) PID() *actor.PID { return l.rt.engine.Router(l.address) }

func (l *Lock) same(other *Lock) bool {
	return l.rt == other.rt && l.address.Kind.Family == other.address.Kind.Family && l.address.Raw == other.address.Raw
}

// Acquire waits for the lock until ctx ends. Waiters of this process are served in order of arrival. When ctx ends, the error
// matches ErrNotAcquired and ctx's error; nothing is held then. When Redis does not answer for Options.Lease/3 (1 s to 10 s),
// the error wraps the cause.
func (l *Lock) Acquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return l.acquire(ctx, opts, false)
}

// TryAcquire makes one attempt. When the lock is taken, or others wait for it in this process, the error matches ErrNotAcquired
// and is a *BusyError.
func (l *Lock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return l.acquire(ctx, opts, true)
}

func (l *Lock) acquire(ctx context.Context, opts []AcquireOption, try bool) (*Lease, error) {
	spec, err := l.spec(ctx, opts, try)
	if err != nil {
		return nil, err
	}
	hold := new(lease.Hold) // not with the lease in one: the runtime has it, too, and must not keep a lease that the user drops
	if err := l.rt.engine.Acquire(ctx, l.address, spec, hold); err != nil {
		return nil, err
	}
	lease := &Lease{engine: l.rt.engine, name: l.address.Name, hold: hold}
	lease.guard.Store(l.rt.engine.Guard(hold))
	return lease, nil
}

// take acquires a lease that this package releases: nobody can drop it.
func (l *Lock) take(ctx context.Context, spec actors.AcquireSpec) (*Lease, error) {
	var taken struct { // one allocation
		lease Lease
		hold  lease.Hold
	}
	if err := l.rt.engine.Acquire(ctx, l.address, spec, &taken.hold); err != nil {
		return nil, err
	}
	taken.lease.engine, taken.lease.name, taken.lease.hold = l.rt.engine, l.address.Name, &taken.hold
	return &taken.lease, nil
}

// spec checks everything that can be wrong with an acquire before it is sent.
func (l *Lock) spec(ctx context.Context, opts []AcquireOption, try bool) (actors.AcquireSpec, error) {
	o, err := applied(opts)
	if err != nil {
		return o.AcquireSpec, fmt.Errorf("holdfast: acquire %s: %w", actors.Quoted(l.address.Name), err)
	}
	o.Try = try
	if o.Owner.IsZero() {
		o.Owner = ownerFor(ctx, l)
	}
	switch err = l.bad; {
	case err != nil:
	case o.wait && try:
		err = fmt.Errorf("%w: WithWait does not go with TryAcquire", ErrInvalid)
	case o.wait && o.Wait <= 0:
		err = fmt.Errorf("%w: wait %v is not positive", ErrInvalid, o.Wait)
	case o.lease && o.Lease == 0:
		err = lease.Check(0)
	default:
		err = l.rt.engine.Check(l.address.Kind, &o.AcquireSpec)
	}
	if err != nil {
		return o.AcquireSpec, fmt.Errorf("holdfast: acquire %s: %w", actors.Quoted(l.address.Name), err)
	}
	return o.AcquireSpec, nil
}

func applied(opts []AcquireOption) (o acquireOptions, err error) {
	if len(opts) == 0 {
		return o, nil // the common case allocates nothing
	}
	given := new(acquireOptions)
	for _, option := range opts {
		if option == nil {
			return o, fmt.Errorf("%w: an option is nil", ErrInvalid)
		}
		option(given)
	}
	return *given, nil
}

// Do acquires the lock, calls fn, and releases. fn's context ends with the lease, its cause is the lease's Err, and it carries
// the owner for this same lock only, so that a nested Do on it re-enters. LeaseFromContext finds the lease in it. The error is fn's,
// joined with the release's: a lease that was lost while fn ran is ErrLeaseLost, one that Close ended is ErrClosed. If fn panics,
// the lock is released and the panic propagates.
//
// The owner in fn's context is fn's whole work: two goroutines of fn that call Do on this lock with that context both re-enter it, and do
// not exclude each other. Give each of them an owner of its own (WithOwner, ContextWithOwner) for a lock that they compete for.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context) error, opts ...AcquireOption) error {
	spec, err := l.spec(ctx, opts, false)
	if err != nil {
		return err
	}
	if fn == nil {
		return fmt.Errorf("holdfast: acquire %q: %w: the function is nil", l.address.Name, ErrInvalid)
	}
	if spec.Owner.IsZero() {
		spec.Owner = l.rt.NewOwner()
	}
	lease, err := l.take(ctx, spec)
	if err != nil {
		return err
	}
	return lease.during(ctx, contextForLock(ctx, spec.Owner, l), fn)
}

// Inspect reads who holds the lock and who waits for it. Its error wraps the cause when Redis does not answer.
func (l *Lock) Inspect(ctx context.Context) (State, error) {
	if l.bad != nil {
		return State{}, fmt.Errorf("holdfast: inspect %s: %w", actors.Quoted(l.address.Name), l.bad)
	}
	return l.rt.engine.Inspect(ctx, l.address)
}

// ForceRelease frees the lock whoever holds it, here or elsewhere, and wakes the waiters; true if it was held. A holder of this
// runtime is told at once, others within a third of their lease. It is not repeated when its outcome is unknown: the error then
// says so, and the lock may be free or not. It is not executed after ctx's deadline, but when ctx is cancelled it may still be on
// its way, for two seconds at most, and then hits whoever holds the lock by that time.
func (l *Lock) ForceRelease(ctx context.Context) (bool, error) {
	if l.bad != nil {
		return false, fmt.Errorf("holdfast: force-release %s: %w", actors.Quoted(l.address.Name), l.bad)
	}
	return l.rt.engine.ForceRelease(ctx, l.address)
}
