package holdfast

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Lock is a handle to a named lock. Acquiring returns a Lease, which represents the hold. Safe for concurrent use.
type Lock struct {
	rt      *Runtime
	address lease.Address
	bad     error // why the name is invalid, or nil if it is valid
}

// State describes a lock. Fields read from Redis: Held, Holders, TTL, Mode ("exclusive", "read" or "write"; "" if the lock is free), Queue of a
// fair lock, and Token of a fenced lock. Fields about this process: Local (the leases that this process holds) and Waiting (the number of acquires
// that wait in this process). See [protocol.State].
type State = protocol.State

// Holder is one holder of a lock, as stored in Redis. Fields: ID (the owner field) and Holds (the holder's count in Redis). Holds is always 1 for
// a holder that uses Holdfast, because Holdfast's processes count re-entries themselves. See [protocol.Holder].
type Holder = protocol.Holder

func (rt *Runtime) lock(kind *scripts.Kind, name string) *Lock {
	address, err := rt.engine.Address(kind, name)
	return &Lock{rt: rt, address: address, bad: err}
}

// Name is the name given to the method of Runtime that made the handle.
func (l *Lock) Name() string { return l.address.Name }

// PID is the address for protocol messages about this lock; each message names the kind and the lock. The PID is valid for the runtime's
// life, is shared by many locks, and cannot be stopped. Package protocol describes the requests and their answers.
func (l *Lock) PID() *actor.PID { return l.rt.engine.Front(&l.address) }

func (l *Lock) same(other *Lock) bool {
	return l.rt == other.rt && l.address.Kind.Family == other.address.Kind.Family && l.address.Raw == other.address.Raw
}

// Acquire waits until it has the lock, or ctx ends. When ctx ends, nothing is held and the error matches both ErrNotAcquired and ctx's error. If
// Redis does not answer for Options.Lease/3 (at least 1 s, at most 10 s), Acquire fails before ctx ends, and the error wraps the cause without
// matching ErrNotAcquired. Acquire never waits beyond a deadline of ctx. But if ctx is cancelled while Redis does not answer, Acquire may take up
// to half a second to return, or up to a second if Redis was already slow. Acquire may run the hooks of the Redis client on the caller's goroutine,
// so a hook that blocks delays Acquire.
//
// Waiters of one process are served in order of arrival.
func (l *Lock) Acquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return l.acquire(ctx, opts, false)
}

// TryAcquire makes one attempt. If the lock is taken, or others in this process are waiting for it, the error matches
// ErrNotAcquired and is a *BusyError. If Redis does not answer, the error wraps the cause, and matches ErrNotAcquired only if ctx has ended.
func (l *Lock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return l.acquire(ctx, opts, true)
}

func (l *Lock) acquire(ctx context.Context, opts []AcquireOption, try bool) (*Lease, error) {
	spec, err := l.spec(ctx, opts, try)
	if err != nil {
		return nil, err
	}
	hold := new(lease.Hold) // allocated on its own: the runtime keeps the hold alive, and must not keep a dropped lease alive with it
	if err := l.rt.engine.Acquire(ctx, &l.address, spec, hold); err != nil {
		return nil, err
	}
	lease := &Lease{engine: l.rt.engine, name: l.address.Name, hold: hold}
	lease.guard.Store(l.rt.engine.Guard(hold))
	return lease, nil
}

// take acquires a lease that this package itself releases, so no guard is needed.
func (l *Lock) take(ctx context.Context, spec wait.AcquireSpec) (*Lease, error) {
	var taken struct { // one allocation
		lease Lease
		hold  lease.Hold
	}
	if err := l.rt.engine.Acquire(ctx, &l.address, spec, &taken.hold); err != nil {
		return nil, err
	}
	taken.lease.engine, taken.lease.name, taken.lease.hold = l.rt.engine, l.address.Name, &taken.hold
	return &taken.lease, nil
}

// spec returns the specification of an acquire. It checks the name and all options, so that an invalid acquire fails before a request is sent.
func (l *Lock) spec(ctx context.Context, opts []AcquireOption, try bool) (wait.AcquireSpec, error) {
	o, err := applied(opts)
	if err != nil {
		return o.AcquireSpec, fmt.Errorf("holdfast: acquire %s: %w", lease.Quoted(l.address.Name), err)
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
		err = lease.Check("lease", 0)
	case o.renewed && o.Renewed == 0:
		err = lease.Check("renewed lease", 0)
	case o.atMost && o.AtMost == 0:
		err = lease.Check("at-most", 0)
	case o.atLeast && o.AtLeast == 0:
		err = lease.Check("at-least", 0)
	default:
		err = o.Check(l.address.Kind, l.rt.id)
	}
	if err != nil {
		return o.AcquireSpec, fmt.Errorf("holdfast: acquire %s: %w", lease.Quoted(l.address.Name), err)
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

// Do acquires the lock, calls fn, and releases the lock. fn's context ends with the lease. The context's cause is then the lease's Err.
// LeaseFromContext returns the lease from that context.
//
// The error of Do is fn's error joined with the error of the release. The joined error matches ErrLeaseLost if the lease was lost while fn ran, and
// ErrClosed if Close ended the lease. If fn panics, the lock is released and the panic propagates.
//
// The context also carries the lease's owner, for this lock only, so a nested Do on this lock re-enters. If fn starts two goroutines that call Do
// on this lock with that context, both re-enter, and do not exclude each other. To make them exclude each other, use a sync.Mutex. A goroutine that
// calls Do with an owner of its own (WithOwner, ContextWithOwner) waits until the outer Do has released the lock.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context) error, opts ...AcquireOption) error {
	return l.do(ctx, fn, opts, false)
}

// TryDo is like Do, but makes only one attempt to acquire the lock, as TryAcquire does. If the lock is taken, fn is not called and the error
// matches ErrNotAcquired. (An error that fn returns may match ErrNotAcquired, too.)
func (l *Lock) TryDo(ctx context.Context, fn func(ctx context.Context) error, opts ...AcquireOption) error {
	return l.do(ctx, fn, opts, true)
}

func (l *Lock) do(ctx context.Context, fn func(ctx context.Context) error, opts []AcquireOption, try bool) error {
	spec, err := l.spec(ctx, opts, try)
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

// Inspect reads the lock's holders and waiters. When Redis does not answer, the error wraps the cause.
func (l *Lock) Inspect(ctx context.Context) (State, error) {
	if l.bad != nil {
		return State{}, fmt.Errorf("holdfast: inspect %s: %w", lease.Quoted(l.address.Name), l.bad)
	}
	return l.rt.engine.Inspect(ctx, &l.address)
}

// ForceRelease frees the lock no matter who holds it, in this process or elsewhere, and wakes the waiters. The result reports whether the lock was
// held. Holders in this runtime learn of the loss at once. Other holders learn of it at their next renewal, within a third of the lease. A fixed
// lease (WithLease) in another process is not renewed, so its holder may not notice the loss until the lease ends.
//
// If the outcome of a ForceRelease is unknown, the error says so: the lock may or may not be free. The runtime does not repeat the call.
// ForceRelease never frees the lock after ctx's deadline. But if ctx is cancelled, a call in flight may still be executed up to two seconds later,
// and take the lock from its next holder.
func (l *Lock) ForceRelease(ctx context.Context) (bool, error) {
	if l.bad != nil {
		return false, fmt.Errorf("holdfast: force-release %s: %w", lease.Quoted(l.address.Name), l.bad)
	}
	return l.rt.engine.ForceRelease(ctx, &l.address)
}
