package redissonpeer

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed write_acquire.lua
	writeAcquireScript string
	//go:embed write_release.lua
	writeReleaseScript string
	//go:embed read_write_force_release.lua
	readWriteForceReleaseScript string
)

// readUnlockMessage wakes all waiters.
const readUnlockMessage = "1"

// RWriteLock is the write half of a read/write lock as one thread of a peer sees it.
type RWriteLock struct{ RLock }

var _ Lock = (*RWriteLock)(nil)

// RWriteLock returns the write half of the read/write lock with this name, for one thread of the peer.
func (p *Peer) RWriteLock(name string, thread int64) *RWriteLock {
	l := &RWriteLock{RLock{peer: p, name: name, thread: thread, field: p.owner(thread) + ":write"}}
	l.lease.Store(milliseconds(p.watchdog.lease))
	return l
}

// TryLock takes the write half if the lock is free, or if this thread already holds the write half.
func (l *RWriteLock) TryLock(ctx context.Context, lease time.Duration) (bool, error) {
	return tryBy(ctx, func() (*time.Duration, error) { return l.acquire(ctx, lease) })
}

// Lock waits for the write half until ctx ends.
func (l *RWriteLock) Lock(ctx context.Context, lease time.Duration) error {
	return l.peer.lockBy(ctx, ReadWriteChannel(l.name), func() (*time.Duration, error) { return l.acquire(ctx, lease) })
}

func (l *RWriteLock) acquire(ctx context.Context, lease time.Duration) (*time.Duration, error) {
	lease, watched := l.terms(lease)
	ttl, err := l.peer.evalInt(ctx, writeAcquireScript, []string{l.name}, milliseconds(lease), l.field)
	return l.acquired(ttl, err, lease, watched, l.peer.watchdog)
}

// Unlock releases one hold.
func (l *RWriteLock) Unlock(ctx context.Context) error {
	return l.unlockBy(ctx, l.Release, l.peer.watchdog)
}

// Release sends one release request. The request's latch, the key in which Redisson keeps the outcome, stays in Redis until it
// expires.
func (l *RWriteLock) Release(ctx context.Context, requestID string) (Outcome, error) {
	keys := []string{l.name, ReadWriteChannel(l.name), LatchKey(l.name, requestID)}
	return l.released(l.peer.evalInt(ctx, writeReleaseScript, keys,
		readUnlockMessage, l.lease.Load(), l.field, publish, milliseconds(latchLife)))
}

// ForceUnlock frees the lock if it is in write mode.
func (l *RWriteLock) ForceUnlock(ctx context.Context) (bool, error) {
	l.peer.watchdog.forget(l.name)
	return l.peer.forceReadWrite(ctx, l.name, "write", readUnlockMessage)
}

func (p *Peer) forceReadWrite(ctx context.Context, name, mode, message string) (bool, error) {
	existed, err := p.evalInt(ctx, readWriteForceReleaseScript, []string{name, ReadWriteChannel(name)}, mode, message, publish)
	return existed != nil && *existed == 1, err
}

// IsLocked reports whether the lock is in write mode.
func (l *RWriteLock) IsLocked(ctx context.Context) (bool, error) {
	mode, err := l.peer.mode(ctx, l.name)
	return mode == "write", err
}

// mode is "" when the lock is free.
func (p *Peer) mode(ctx context.Context, name string) (string, error) {
	mode, err := p.client.HGet(ctx, name, "mode").Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return mode, err
}
