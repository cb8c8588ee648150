// Package certmagic keeps the locks of any [certmagic] storage in Redis. Of the processes that share the storage, one obtains or renews a
// certificate, and the others find it in the storage.
//
//	magic.Storage = holdmagic.Wrap(storage, rt, "certmagic:")
//
// [certmagic]: https://github.com/caddyserver/certmagic
package certmagic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
)

// Wrap returns a storage that keeps its data in inner and its locks in Redis. The name of a lock is holdfast.EscapeName(prefix + name), where name is
// certmagic's name of the lock. Processes that share inner must use the same prefix.
//
// The storage is a certmagic.TryLocker and a certmagic.LockLeaseRenewer too. A watchdog renews the locks, so RenewLockLease renews nothing. But if
// a lock was lost, RenewLockLease acquires it again, so that certmagic begins no attempt without the lock.
func Wrap(inner certmagic.Storage, rt *holdfast.Runtime, prefix string) certmagic.Storage {
	return &storage{Storage: inner, rt: rt, prefix: prefix, leases: map[string][]*holdfast.Lease{}}
}

type storage struct {
	certmagic.Storage
	rt     *holdfast.Runtime
	prefix string

	mu     sync.Mutex
	leases map[string][]*holdfast.Lease // by certmagic's name, oldest first
}

var (
	_ certmagic.TryLocker        = (*storage)(nil)
	_ certmagic.LockLeaseRenewer = (*storage)(nil)
)

// String describes the inner storage, for the log of certmagic. Without this method the log would contain every exported field of the inner storage,
// even a password.
func (s *storage) String() string {
	if inner, ok := s.Storage.(fmt.Stringer); ok {
		return inner.String()
	}
	return fmt.Sprintf("%T", s.Storage)
}

func (s *storage) lock(name string) *holdfast.Lock {
	return s.rt.Lock(holdfast.EscapeName(s.prefix + name))
}

// Lock waits for the lock until ctx ends.
func (s *storage) Lock(ctx context.Context, name string) error {
	lease, err := s.lock(name).Acquire(ctx)
	if err != nil {
		return err
	}
	s.keep(name, lease)
	return nil
}

// TryLock acquires the lock if it is free, and reports whether it did. A lock that is held is not an error.
func (s *storage) TryLock(ctx context.Context, name string) (bool, error) {
	lease, err := s.lock(name).TryAcquire(ctx)
	var busy *holdfast.BusyError
	if errors.As(err, &busy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.keep(name, lease)
	return true, nil
}

// Unlock releases the lock. It returns no error if the lock was lost, because there is nothing to release then.
func (s *storage) Unlock(ctx context.Context, name string) error {
	lease := s.forget(name)
	if lease == nil {
		return fmt.Errorf("unlock %q: %w", name, errNotLocked)
	}
	err := lease.Release(ctx)
	if errors.Is(err, holdfast.ErrLeaseLost) {
		return nil
	}
	return err
}

// RenewLockLease makes sure that this process holds the lock. It ignores the duration, because the watchdog renews the lock. If the lock was lost,
// RenewLockLease acquires it again; if others hold the lock, the error is a *holdfast.BusyError.
//
// certmagic retries for up to a month. Before each attempt, certmagic calls RenewLockLease, and then checks whether there is still something to do.
func (s *storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	if held, err := s.holds(name); held || err != nil {
		return err
	}
	lease, err := s.lock(name).TryAcquire(ctx)
	if err != nil {
		return err
	}
	if !s.replace(name, lease) {
		return errors.Join(fmt.Errorf("renew %q: %w", name, errNotLocked), lease.Release(ctx))
	}
	return nil
}

// holds reports whether one of the leases of this name is valid. The valid lease may be that of a goroutine other than the caller. holds returns true
// even then: certmagic passes only the name, so holds cannot tell the goroutines apart. If holds returned false, the attempts of both goroutines
// would fail.
func (s *storage) holds(name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.leases[name]
	if len(of) == 0 {
		return false, fmt.Errorf("renew %q: %w", name, errNotLocked)
	}
	return slices.ContainsFunc(of, (*holdfast.Lease).Valid), nil
}

// keep remembers a lease, because Unlock gets only the name of the lock. A name has several leases if one goroutine has lost the lock, but has not
// unlocked it yet, and another goroutine has acquired the lock meanwhile.
func (s *storage) keep(name string, lease *holdfast.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[name] = append(s.leases[name], lease)
}

// replace puts a lease in the place of a lost one. If the name has no lease any more, it returns false: certmagic.CleanUpOwnLocks has unlocked the
// lock meanwhile.
func (s *storage) replace(name string, lease *holdfast.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.leases[name]
	if len(of) == 0 {
		return false
	}
	of[len(of)-1] = lease
	return true
}

// forget removes and returns the oldest lease. If there are several leases, the oldest was lost. So the Unlock of the goroutine that has lost the
// lock does not release the lease that another goroutine still uses.
func (s *storage) forget(name string) *holdfast.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.leases[name]
	if len(of) == 0 {
		return nil
	}
	if len(of) == 1 {
		delete(s.leases, name)
	} else {
		s.leases[name] = of[1:]
	}
	return of[0]
}

var errNotLocked = errors.New("it is not locked")
