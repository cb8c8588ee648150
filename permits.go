package holdfast

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/scripts"
)

// PermitSemaphore is a semaphore whose permits are leases. The watchdog renews the permits that are held. The permits of a crashed process
// become available again within Options.Lease plus ten seconds. A PermitSemaphore is safe for concurrent use.
//
// The waiters of one process are served in order of arrival. A process passes a permit on to its own waiters for at most a third of
// Options.Handoff.For. Passing a permit on takes one call to Redis, which gives the permit a new id. With Options.AckReplicas, permits are not
// passed on.
//
// The ten seconds come from Redisson. It takes a permit back only ten seconds after the expiry, because clients' clocks may be wrong.
type PermitSemaphore struct {
	lock *Lock
	counter
}

// PermitSemaphore returns the semaphore with this name (Redisson's getPermitExpirableSemaphore). Until its permits are set, it has
// none.
func (rt *Runtime) PermitSemaphore(name string) *PermitSemaphore {
	return &PermitSemaphore{lock: rt.lock(scripts.Permit, name), counter: rt.counter(scripts.PermitSemaphore, name)}
}

// Acquire waits for a permit until ctx ends. The watchdog renews the permit until it is released; with WithLease it is not renewed.
// Errors are those of Lock.Acquire. If the number of permits was never set, the error matches ErrNotAcquired and its text says so.
// Lease.ID is the permit's id, which anyone can pass to ReleaseID.
func (s *PermitSemaphore) Acquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return s.lock.Acquire(ctx, opts...)
}

// TryAcquire makes one attempt to take a permit. If none is free, or others in this process are waiting for one, the error matches
// ErrNotAcquired. If the number of permits was never set, the error's text says so.
func (s *PermitSemaphore) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return s.lock.TryAcquire(ctx, opts...)
}

// Do acquires a permit, calls fn, and releases the permit, as Lock.Do does. Permits are not re-entrant: a nested Do takes another
// one.
func (s *PermitSemaphore) Do(ctx context.Context, fn func(ctx context.Context) error, opts ...AcquireOption) error {
	return s.lock.Do(ctx, fn, opts...)
}

// TryDo is like Do, but makes only one attempt to take a permit, as TryAcquire does. If no permit is free, fn is not called and the error matches
// ErrNotAcquired.
func (s *PermitSemaphore) TryDo(ctx context.Context, fn func(ctx context.Context) error, opts ...AcquireOption) error {
	return s.lock.TryDo(ctx, fn, opts...)
}

// TrySetPermits sets the number of permits to n, 0 to 2^31-1, unless it was set before. It reports whether it set the number.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	set, err := s.count(ctx, scripts.PermitsTrySet, n, 0, false)
	return set == 1, err
}

// SetPermits sets the total number of permits to n, 0 to 2^31-1, including those that are held. If n or more are held, none
// becomes available until fewer than n are held.
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	_, err := s.count(ctx, scripts.PermitsSet, n, 0, false)
	return err
}

// AddPermits changes the total number of permits by delta, which may be negative.
func (s *PermitSemaphore) AddPermits(ctx context.Context, delta int) error {
	_, err := s.count(ctx, scripts.PermitsAdd, delta, -math.MaxInt32, false)
	return err
}

// Available returns the number of free permits. It is negative if the total was reduced below the number of permits held.
func (s *PermitSemaphore) Available(ctx context.Context) (int, error) {
	n, err := s.count(ctx, scripts.PermitsFree, 0, 0, false)
	return int(n), err
}

// Acquired returns the number of permits that are held.
func (s *PermitSemaphore) Acquired(ctx context.Context) (int, error) {
	n, err := s.count(ctx, scripts.PermitsOut, 0, 0, false)
	return int(n), err
}

// Permits returns the total number of permits; 0 if the semaphore was never set.
func (s *PermitSemaphore) Permits(ctx context.Context) (int, error) {
	n, err := s.count(ctx, scripts.PermitsAll, 0, 0, false)
	return int(n), err
}

// Delete removes the semaphore with its permits, and reports whether there was one. Leases that the watchdog renews are lost at
// their next renewal. Leases acquired with WithLease are not renewed. In this runtime they are lost at once. In other processes their
// holders do not notice the loss until the leases end.
func (s *PermitSemaphore) Delete(ctx context.Context) (bool, error) {
	deleted, err := s.count(ctx, scripts.PermitsDeleteAll, 0, 0, false)
	return deleted == 1, err
}

// ReleaseID releases permits by their ids, no matter which process holds them. If one of the ids is not held, ReleaseID releases none,
// and the error matches ErrNotHeld.
//
// The leases that the permits belong to are lost: at once in this runtime, at the next renewal in other processes. Leases that other
// processes have acquired with WithLease are not renewed, so their holders do not notice the loss until the leases end.
func (s *PermitSemaphore) ReleaseID(ctx context.Context, ids ...string) error {
	ids = slices.Clone(ids)
	for i, id := range ids {
		ids[i] = strings.ToLower(id)
	}
	op := scripts.PermitsRelease(ids)
	if len(ids) == 0 {
		return s.bad(op)
	}
	for _, id := range ids {
		if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
			return fmt.Errorf("holdfast: %s %s: %w permit id %q: it must be 32 hexadecimal digits", op.Word, lease.Quoted(s.Name()), ErrInvalid, id)
		}
	}
	n, err := s.count(ctx, op, 0, 0, false)
	if err == nil && n == 0 {
		return fmt.Errorf("holdfast: %s %s: %w: at least one of %d permits is not held", op.Word, lease.Quoted(s.Name()), ErrNotHeld, len(ids))
	}
	return err
}
