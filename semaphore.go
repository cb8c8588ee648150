package holdfast

import (
	"context"
	"fmt"
	"math"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/scripts"
)

// Semaphore is a handle on the semaphore of one name: a number of permits that nobody owns. Whoever has acquired permits must release
// them, anybody may release more, and permits of a process that dies are gone: PermitSemaphore gives them back. Safe for concurrent
// use.
//
// The permits are Redisson's RSemaphore's: who waits is served in order of arrival inside a process, and takes turns with other
// processes. A waiter for several permits is not starved by waiters for fewer: after 100 ms as the first of its process it keeps the
// permits that come free together, for half of the time at most; meanwhile others are not served and TryAcquire may fail although
// permits are available. Redisson's waiters do not take part in that.
//
// Every operation counts once, whatever is lost on the way. Its error matches ErrForeignKey when the key holds something that is no
// count, and ErrInvalid for a number out of range; it wraps the cause when Redis does not answer for Options.Lease/3 (1 s to 10 s).
//
// A failover of Redis may forget the last operations, because replication is asynchronous. Permits are then missing, or too many, until
// somebody corrects their number with AddPermits: see "After a failover" in doc/operations.md.
type Semaphore struct{ counter }

// Semaphore is the semaphore of this name, Redisson's getSemaphore. Making a handle is cheap and does no I/O; a bad name is reported
// by the first call that would use it, as an error matching ErrInvalid. Until its permits are set it has none.
func (rt *Runtime) Semaphore(name string) *Semaphore {
	return &Semaphore{rt.counter(scripts.Semaphore, name)}
}

// TrySetPermits sets the number of permits, 0 to 2^31-1, of a semaphore that has none yet; false if it was set before.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	set, err := s.count(ctx, scripts.SemaphoreTrySet, n, 0, false)
	return set == 1, err
}

// Acquire waits for n permits, 1 to 2^31-1, until ctx ends, and takes them all at once; none for n = 0. When ctx ends, the error
// matches ErrNotAcquired and ctx's error, and nothing is taken: should Redis have granted permits already, they are given back.
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	return s.acquire(ctx, n, false)
}

// TryAcquire takes n permits if they are there: one attempt. When there are too few, or others of this process wait for permits, the
// error matches ErrNotAcquired. It says so when there are none because TrySetPermits was never called.
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

// Release gives n permits back, 1 to 2^31-1, and wakes those who wait; nothing for n = 0. Nobody checks whether they were acquired, and
// a semaphore without permits is created. It works when ctx has ended already: it then waits 500 ms. Until Redis confirms, the
// runtime goes on trying, for 30 s, also after an error that wraps ctx's: do not release again. What it then had to give up
// is reported by an Unconfirmed event.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	if n == 0 {
		return s.bad(scripts.SemaphoreRelease)
	}
	_, err := s.count(ctx, scripts.SemaphoreRelease, n, 1, false)
	return err
}

// AddPermits changes the number of permits by delta; it may become negative, and then that many more must be released before
// anybody can acquire.
func (s *Semaphore) AddPermits(ctx context.Context, delta int) error {
	_, err := s.count(ctx, scripts.SemaphoreAdd, delta, -math.MaxInt32, false)
	return err
}

// Drain takes all permits that are available and returns how many; a negative number is set to 0.
func (s *Semaphore) Drain(ctx context.Context) (int, error) {
	n, err := s.count(ctx, scripts.SemaphoreDrain, 0, 0, false)
	return int(n), err
}

// Available is how many permits there are; 0 for a semaphore that was never set.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	n, err := s.count(ctx, scripts.SemaphoreRead, 0, 0, false)
	return int(n), err
}

// Delete removes the semaphore; true if there was one. Its waiters go on waiting, as Redisson's do.
func (s *Semaphore) Delete(ctx context.Context) (bool, error) {
	deleted, err := s.count(ctx, scripts.SemaphoreDelete, 0, 0, false)
	return deleted == 1, err
}

// counter is what is the same for all handles on a count.
type counter struct {
	rt      *Runtime
	address lease.Address
	invalid error // of the name
}

func (rt *Runtime) counter(kind *scripts.Kind, name string) counter {
	address, err := rt.engine.Address(kind, name)
	return counter{rt: rt, address: address, invalid: err}
}

// Name is the name that the handle was made with.
func (c *counter) Name() string { return c.address.Name }

// bad is the error of an operation on a name that cannot be used, nil for a good one.
func (c *counter) bad(op *scripts.CountOp) error {
	if c.invalid == nil {
		return nil
	}
	return fmt.Errorf("holdfast: %s %s: %w", op.Word, actors.Quoted(c.address.Name), c.invalid)
}

// count carries out an operation for a number from least to 2^31-1, which is as far as Redisson counts.
func (c *counter) count(ctx context.Context, op *scripts.CountOp, n, least int, try bool) (int64, error) {
	if err := c.bad(op); err != nil {
		return 0, err
	}
	if n < least || n > math.MaxInt32 {
		return 0, fmt.Errorf("holdfast: %s %q: %w number: %d is not between %d and %d", op.Word, c.address.Name, ErrInvalid, n, least, math.MaxInt32)
	}
	return c.rt.engine.Count(ctx, &c.address, op, int64(n), try)
}
