package holdfast

import "github.com/holdfast-go/holdfast/scripts"

// RWLock is a lock that many readers or one writer may hold. Safe for concurrent use.
//
// Inside a process, readers and writers are served in order of arrival, so later readers do not overtake a waiting writer. Between
// processes Redisson's rules apply: while there are readers, further readers may join, and a writer waits until there are none.
//
// An owner that holds the write lock may also acquire the read lock, and keep it when it releases the write lock (downgrade).
// Upgrading from read to write can never succeed, so it fails at once with ErrUpgrade.
type RWLock struct{ read, write *Lock }

// RWLock returns the read/write lock with this name (Redisson's getReadWriteLock).
func (rt *Runtime) RWLock(name string) *RWLock {
	return &RWLock{read: rt.lock(scripts.ReadLock, name), write: rt.lock(scripts.WriteLock, name)}
}

// Read returns the lock for readers. The readers of a process share one hold in Redis, except for those with WithLease or
// WithRenewedLease, which have their own.
func (l *RWLock) Read() *Lock { return l.read }

// Write returns the lock for writers.
func (l *RWLock) Write() *Lock { return l.write }
