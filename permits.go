package holdfast

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/scripts"
)

// PermitSemaphore is a semaphore whose permits are leases: the watchdog renews what is held, and the permits of a process that dies
// come back by themselves, within Options.Lease and ten seconds. Safe for concurrent use.
//
// Waiters of one process are served in order of arrival; a permit is never handed on inside the process, so each costs its own calls
// to Redis. Redisson's permits are taken back ten seconds after their time, because clocks of clients may be wrong.
type PermitSemaphore struct {
	lock *Lock
	counter
}

// PermitSemaphore is the semaphore of this name, Redisson's getPermitExpirableSemaphore. Until its permits are set it has none.
func (rt *Runtime) PermitSemaphore(name string) *PermitSemaphore {
	return &PermitSemaphore{lock: rt.lock(scripts.Permit, name), counter: rt.counter(scripts.PermitSemaphore, name)}
}

// Acquire waits for a permit until ctx ends. It is renewed by the watchdog until it is released; with WithLease it is fixed. Errors
// are those of Lock.Acquire; one that matches ErrNotAcquired says so when SetPermits was never called. Lease.ID is the permit's id, with which anybody may release it: see ReleaseID.
func (s *PermitSemaphore) Acquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return s.lock.Acquire(ctx, opts...)
}

// TryAcquire makes one attempt. When no permit is free, or others wait for one in this process, the error matches ErrNotAcquired. It
// says so when there is none because SetPermits was never called.
func (s *PermitSemaphore) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return s.lock.TryAcquire(ctx, opts...)
}

// TrySetPermits sets the number of permits, 0 to 2^31-1, of a semaphore that has none yet; false if it was set before.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	set, err := s.count(ctx, scripts.PermitsTrySet, n, 0, false)
	return set == 1, err
}

// SetPermits sets the number of permits in all, 0 to 2^31-1, those that are held among them. If more are held, none comes free until
// so many have been released.
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	_, err := s.count(ctx, scripts.PermitsSet, n, 0, false)
	return err
}

// AddPermits changes the number of permits by delta, which may be negative.
func (s *PermitSemaphore) AddPermits(ctx context.Context, delta int) error {
	_, err := s.count(ctx, scripts.PermitsAdd, delta, -math.MaxInt32, false)
	return err
}

// Available is how many permits are free; negative after more were taken away than were free.
func (s *PermitSemaphore) Available(ctx context.Context) (int, error) {
	n, err := s.count(ctx, scripts.PermitsFree, 0, 0, false)
	return int(n), err
}

// Acquired is how many permits are held.
func (s *PermitSemaphore) Acquired(ctx context.Context) (int, error) {
	n, err := s.count(ctx, scripts.PermitsOut, 0, 0, false)
	return int(n), err
}

// Permits is how many permits there are in all; 0 for a semaphore that was never set.
func (s *PermitSemaphore) Permits(ctx context.Context) (int, error) {
	n, err := s.count(ctx, scripts.PermitsAll, 0, 0, false)
	return int(n), err
}

// Delete removes the semaphore with its permits; true if there was one. The leases of this runtime's holders are lost at once or, if the
// watchdog renews them, at their next renewal. So are the renewed ones in other processes; those with WithLease are not told and stay
// valid until they end, because nothing renews them.
func (s *PermitSemaphore) Delete(ctx context.Context) (bool, error) {
	deleted, err := s.count(ctx, scripts.PermitsDeleteAll, 0, 0, false)
	return deleted == 1, err
}

// ReleaseID gives permits back by their ids, from anywhere: all of them, or none, with an error that matches ErrNotHeld, when one of
// them is not held. The lease that one of them belongs to is lost: at once if it is one of this runtime's,
// in another process at its next renewal. A lease of another process with WithLease is not told and stays valid until it ends, because
// nothing renews it.
func (s *PermitSemaphore) ReleaseID(ctx context.Context, ids ...string) error {
	op := scripts.PermitsRelease(ids)
	if len(ids) == 0 {
		return s.bad(op)
	}
	for _, id := range ids {
		if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
			return fmt.Errorf("holdfast: %s %s: %w permit id %q: it must be 32 hexadecimal digits", op.Word, actors.Quoted(s.Name()), ErrInvalid, id)
		}
	}
	n, err := s.count(ctx, op, 0, 0, false)
	if err == nil && n == 0 {
		return fmt.Errorf("holdfast: %s %s: %w: at least one of %d is not out", op.Word, actors.Quoted(s.Name()), ErrNotHeld, len(ids))
	}
	return err
}
