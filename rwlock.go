package holdfast

import "github.com/holdfast-go/holdfast/scripts"

// RWLock is a lock that many readers or one writer may hold. Safe for concurrent use.
//
// Inside a process, readers and writers are served in order of arrival, so a waiting writer is not passed by readers that come
// later. Among processes Redisson's rules hold: as long as somebody reads, readers are let in, and a writer waits for a moment
// without any. An owner that holds the write lock may take the read lock as well, and keep it when it releases the write lock
// (downgrade). The reverse can never succeed and is ErrUpgrade at once.
type RWLock struct{ read, write *Lock }

// RWLock is the read/write lock of this name, Redisson's getReadWriteLock.
func (rt *Runtime) RWLock(name string) *RWLock {
	return &RWLock{read: rt.lock(scripts.ReadLock, name), write: rt.lock(scripts.WriteLock, name)}
}

// Read is the half for readers. They share one hold in Redis per process, except those with WithLease, which have their own.
func (l *RWLock) Read() *Lock { return l.read }

// Write is the half for writers.
func (l *RWLock) Write() *Lock { return l.write }
