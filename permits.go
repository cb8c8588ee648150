package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/scripts"
)

// PermitSemaphore is a semaphore whose permits are leases: the watchdog renews what is held, and the permits of a process that dies
// come back by themselves, within Options.Lease and ten seconds. Safe for concurrent use.
//
// Waiters of one process are served in order of arrival; a permit is never handed on inside the process, so each costs its own calls
// to Redis. Redisson's permits are taken back ten seconds after their time, because clocks of clients may be wrong.
type PermitSemaphore struct{ lock *Lock }

// PermitSemaphore is the semaphore of this name, Redisson's getPermitExpirableSemaphore. Until its permits are set it has none.
func (rt *Runtime) PermitSemaphore(name string) *PermitSemaphore {
	return &PermitSemaphore{lock: rt.lock(scripts.Permit, name)}
}

// Name is the name given to Runtime.PermitSemaphore.
func (s *PermitSemaphore) Name() string { return s.lock.Name() }

// Acquire waits for a permit until ctx ends. It is renewed by the watchdog until it is released; with WithLease it is fixed. Errors
// are those of Lock.Acquire. Lease.ID is the permit's id, with which anybody may release it: see ReleaseID.
func (s *PermitSemaphore) Acquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return s.lock.Acquire(ctx, opts...)
}

// TryAcquire makes one attempt. When no permit is free, or others wait for one in this process, the error matches ErrNotAcquired.
func (s *PermitSemaphore) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return s.lock.TryAcquire(ctx, opts...)
}
