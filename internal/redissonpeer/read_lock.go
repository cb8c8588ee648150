package redissonpeer

import (
	"context"
	_ "embed"
	"time"
)

var (
	//go:embed read_acquire.lua
	readAcquireScript string
	//go:embed read_release.lua
	readReleaseScript string
	//go:embed read_renew.lua
	readRenewScript string
)

// RReadLock is the read half of a read/write lock as one thread of a peer sees it.
type RReadLock struct{ RLock }

var _ Lock = (*RReadLock)(nil)

// RReadLock returns the read half of the read/write lock with this name, for one thread of the peer.
func (p *Peer) RReadLock(name string, thread int64) *RReadLock {
	l := &RReadLock{RLock{peer: p, name: name, thread: thread, field: p.owner(thread)}}
	l.lease.Store(milliseconds(p.readers.lease))
	return l
}

// TryLock takes the read half if there is no writer, or if this thread is the writer.
func (l *RReadLock) TryLock(ctx context.Context, lease time.Duration) (bool, error) {
	return tryBy(ctx, func() (*time.Duration, error) { return l.acquire(ctx, lease) })
}

// Lock waits for the read half until ctx ends.
func (l *RReadLock) Lock(ctx context.Context, lease time.Duration) error {
	return l.peer.lockBy(ctx, ReadWriteChannel(l.name), func() (*time.Duration, error) { return l.acquire(ctx, lease) })
}

func (l *RReadLock) acquire(ctx context.Context, lease time.Duration) (*time.Duration, error) {
	lease, watched := l.terms(lease)
	keys := []string{l.name, readTimeouts(l.name, l.field)}
	ttl, err := l.peer.evalInt(ctx, readAcquireScript, keys, milliseconds(lease), l.field, l.field+":write")
	return l.acquired(ttl, err, lease, watched, l.peer.readers)
}

// Unlock releases one hold of the read half. As in Redisson, the watchdog of the write half also subtracts one hold of this thread, if it counts
// any. When its count is zero, it no longer renews the write half for this thread.
func (l *RReadLock) Unlock(ctx context.Context) error {
	return l.unlockBy(ctx, l.Release, l.peer.readers, l.peer.watchdog)
}

// Release sends one release request. Redis keeps the result for a while, so sending the same request again changes nothing.
func (l *RReadLock) Release(ctx context.Context, requestID string) (Outcome, error) {
	keys := []string{
		l.name, ReadWriteChannel(l.name), readTimeouts(l.name, l.field), slot(l.name), LatchKey(l.name, requestID),
	}
	return l.released(l.peer.evalInt(ctx, readReleaseScript, keys, unlockMessage, l.field, publish, milliseconds(latchLife)))
}

// ForceUnlock frees the lock if it is in read mode.
func (l *RReadLock) ForceUnlock(ctx context.Context) (bool, error) {
	l.peer.readers.forget(l.name)
	return l.peer.forceReadWrite(ctx, l.name, "read", unlockMessage)
}

// IsLocked reports whether the lock has a reader.
func (l *RReadLock) IsLocked(ctx context.Context) (bool, error) {
	mode, err := l.peer.mode(ctx, l.name)
	if err != nil || mode != "write" {
		return mode == "read", err
	}
	fields, err := l.peer.client.HLen(ctx, l.name).Result()
	return fields > 2, err
}

// renewReaders renews the holds of this peer's readers on a batch of locks.
func (p *Peer) renewReaders(ctx context.Context, lease time.Duration, batch []due) (any, error) {
	var keys []string
	args := []any{milliseconds(lease)}
	for _, d := range batch {
		keys = append(keys, d.name, slot(d.name))
		args = append(args, len(d.fields))
		for _, field := range d.fields {
			args = append(args, field)
		}
	}
	return p.eval(ctx, readRenewScript, keys, args...)
}
