package holdfast

import (
	"context"
	"fmt"
	"math"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/scripts"
)

// Semaphore is a handle to a named semaphore: a number of permits without owners. Release what you acquire, because the permits
// of a process that crashes never become available again. (The permits of a PermitSemaphore become available after their leases
// have expired.) A Semaphore is safe for concurrent use.
//
// A Semaphore and an RSemaphore of Redisson with the same name share their permits. Waiters are served in order of arrival inside
// a process; among processes there is no order. A waiter for several permits is not starved by waiters for fewer. Once it has
// been the oldest waiter of its process for 100 ms, it reserves the permits that become free. During a reservation no other
// waiter is served, and TryAcquire may fail although permits are available. A reservation is followed by a pause of the same
// length, in which no waiter may reserve. Redisson's waiters ignore reservations.
//
// Every operation counts exactly once, even if requests or replies are lost. The error of an operation matches ErrForeignKey if
// the key does not hold a count, and ErrInvalid if the number is out of range. If Redis does not answer for Options.Lease/3 (at
// least 1 s, at most 10 s), the error wraps the cause.
//
// A failover of Redis may lose the last operations, because replication is asynchronous. The semaphore then has too few or too
// many permits, until somebody corrects the number with AddPermits: see "After a failover" in doc/operations.md.
type Semaphore struct{ counter }

// Semaphore returns the semaphore with this name (Redisson's getSemaphore). Making a handle is cheap and does no I/O. A bad name is
// reported by the first call that would use it, as an error matching ErrInvalid. Until its permits are set, the semaphore has none.
func (rt *Runtime) Semaphore(name string) *Semaphore {
	return &Semaphore{rt.counter(scripts.Semaphore, name)}
}

// TrySetPermits sets the number of permits to n, unless the number was set before. It reports whether it set the number. The
// range of n is 0 to 2^31-1.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	set, err := s.count(ctx, scripts.SemaphoreTrySet, n, 0, false)
	return set == 1, err
}

// Acquire waits until n permits are available or ctx ends, and takes the n permits all at once. The range of n is 0 to 2^31-1;
// with n = 0 it takes none. If ctx ends, Acquire takes nothing, and the error matches ErrNotAcquired and ctx's error. If Redis
// has granted the permits by then, the runtime returns them to the semaphore.
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	return s.acquire(ctx, n, false)
}

// TryAcquire makes one attempt to take n permits. If too few are available, or others in this process are waiting, the error
// matches ErrNotAcquired. If the number of permits was never set, the text of the error says so.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) error {
	return s.acquire(ctx, n, true)
}

func (s *Semaphore) acquire(ctx context.Context, n int, try bool) error {
	if n == 0 {
		return s.bad(scripts.SemaphoreAcquire)
	}
	_, err := s.count(ctx, scripts.SemaphoreAcquire, n, 1, try)
	return err
}

// Release returns n permits and wakes the waiters. The range of n is 0 to 2^31-1; with n = 0 Release does nothing. It does not
// check whether the permits were acquired. If the semaphore does not exist, Release creates it.
//
// Release works even if ctx has ended: it then waits for Redis for up to 500 ms. If the error of Release wraps ctx's error, do
// not release again, because the runtime retries for up to 30 s until Redis confirms. If the runtime gives up, it reports an
// Unconfirmed event.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	if n == 0 {
		return s.bad(scripts.SemaphoreRelease)
	}
	_, err := s.count(ctx, scripts.SemaphoreRelease, n, 1, false)
	return err
}

// AddPermits changes the number of available permits by delta, which may be negative. The number of available permits may become
// negative, too. It then stays negative until enough permits are released or added.
func (s *Semaphore) AddPermits(ctx context.Context, delta int) error {
	_, err := s.count(ctx, scripts.SemaphoreAdd, delta, -math.MaxInt32, false)
	return err
}

// Drain takes all available permits and returns their number. If that number is negative, Drain returns it and sets the number
// to 0.
func (s *Semaphore) Drain(ctx context.Context) (int, error) {
	n, err := s.count(ctx, scripts.SemaphoreDrain, 0, 0, false)
	return int(n), err
}

// Available returns the number of available permits; 0 if the semaphore was never set.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	n, err := s.count(ctx, scripts.SemaphoreRead, 0, 0, false)
	return int(n), err
}

// Delete removes the semaphore, and reports whether there was one. Its waiters keep waiting, as Redisson's do.
func (s *Semaphore) Delete(ctx context.Context) (bool, error) {
	deleted, err := s.count(ctx, scripts.SemaphoreDelete, 0, 0, false)
	return deleted == 1, err
}

// counter is the common part of the handles to semaphores and latches.
type counter struct {
	rt      *Runtime
	address lease.Address
	invalid error // why the name is invalid, or nil if it is valid
}

func (rt *Runtime) counter(kind *scripts.Kind, name string) counter {
	address, err := rt.engine.Address(kind, name)
	return counter{rt: rt, address: address, invalid: err}
}

// Name returns the name that the handle was made with.
func (c *counter) Name() string { return c.address.Name }

// bad returns the error of an operation on an invalid name, or nil if the name is valid.
func (c *counter) bad(op *scripts.CountOp) error {
	if c.invalid == nil {
		return nil
	}
	return fmt.Errorf("holdfast: %s %s: %w", op.Word, lease.Quoted(c.address.Name), c.invalid)
}

// count runs an operation with the number n. It returns an error if n is less than `least`, or more than 2^31-1, which is
// Redisson's largest count.
func (c *counter) count(ctx context.Context, op *scripts.CountOp, n, least int, try bool) (int64, error) {
	if err := c.bad(op); err != nil {
		return 0, err
	}
	if n < least || n > math.MaxInt32 {
		return 0, fmt.Errorf("holdfast: %s %q: %w number: %d is not between %d and %d", op.Word, c.address.Name, ErrInvalid, n, least, math.MaxInt32)
	}
	return c.rt.engine.Count(ctx, &c.address, op, int64(n), try)
}
