package redissonpeer

import (
	"context"
	_ "embed"
	"fmt"
	"time"
)

var (
	//go:embed fair_acquire.lua
	fairAcquireScript string
	//go:embed fair_release.lua
	fairReleaseScript string
	//go:embed fair_leave.lua
	fairLeaveScript string
	//go:embed fair_force_release.lua
	fairForceReleaseScript string
)

// RFairLock is a fair lock as one thread of a peer sees it. It uses the peer's wall clock, which may be wrong: see Config.ClockAhead.
type RFairLock struct{ RLock }

var _ Lock = (*RFairLock)(nil)

// RFairLock returns the fair lock with this name, for one thread of the peer.
func (p *Peer) RFairLock(name string, thread int64) *RFairLock {
	l := &RFairLock{RLock{peer: p, name: name, thread: thread, field: p.owner(thread)}}
	l.lease.Store(milliseconds(p.watchdog.lease))
	return l
}

// FairQueueKey is the key of the list of waiters. FairTimeoutKey is the key of the sorted set of their timeouts.
func FairQueueKey(name string) string   { return prefixed("redisson_lock_queue", name) }
func FairTimeoutKey(name string) string { return prefixed("redisson_lock_timeout", name) }

// TryLock takes the lock if it is free and has no waiters, or if this thread already holds it.
func (l *RFairLock) TryLock(ctx context.Context, lease time.Duration) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	ttl, err := l.acquire(ctx, lease, false)
	return err == nil && ttl == nil, err
}

// Lock waits in the queue for the lock. If ctx ends first, the thread leaves the queue.
func (l *RFairLock) Lock(ctx context.Context, lease time.Duration) (err error) {
	ttl, err := l.acquire(ctx, lease, true)
	if err != nil || ttl == nil {
		return err
	}
	defer func() {
		if err != nil {
			l.leave(ctx)
		}
	}()
	ch, err := l.peer.join(ctx, Channel(l.name)+":"+l.Owner())
	if err != nil {
		return err
	}
	defer l.peer.leave(ch)
	for {
		ttl, err := l.acquire(ctx, lease, true)
		if err != nil || ttl == nil {
			return err
		}
		if err := ch.await(ctx, *ttl); err != nil {
			return err
		}
	}
}

// acquire makes one try. It returns nil if this thread now holds the lock, else the time to wait before the next try.
func (l *RFairLock) acquire(ctx context.Context, lease time.Duration, queue bool) (*time.Duration, error) {
	lease, watched := l.terms(lease)
	keys := []string{l.name, FairQueueKey(l.name), FairTimeoutKey(l.name)}
	ttl, err := l.peer.evalInt(ctx, fairAcquireScript, keys,
		milliseconds(lease), l.Owner(), milliseconds(l.peer.fairWait), l.peer.now(), map[bool]int{true: 1}[queue])
	return l.acquired(ttl, err, lease, watched, l.peer.watchdog)
}

func (l *RFairLock) leave(ctx context.Context) {
	_, _ = l.peer.evalInt(ctx, fairLeaveScript, []string{FairQueueKey(l.name), FairTimeoutKey(l.name)},
		l.Owner(), milliseconds(l.peer.fairWait))
}

// Unlock releases one hold. As in Redisson, it also succeeds if the lock is free.
func (l *RFairLock) Unlock(ctx context.Context) error {
	outcome, err := l.Release(ctx, NewRequestID())
	l.peer.watchdog.cancel(l.name, l.thread)
	switch {
	case err != nil:
		return fmt.Errorf("redissonpeer: unlock %q: %w", l.name, err)
	case outcome == NotHeld:
		return fmt.Errorf("%w: lock %q, owner %s", ErrNotHeld, l.name, l.Owner())
	}
	return nil
}

// Release sends one release request. Redis keeps the result of the request for a while, so a repeated request changes nothing.
func (l *RFairLock) Release(ctx context.Context, requestID string) (Outcome, error) {
	keys := []string{l.name, FairQueueKey(l.name), FairTimeoutKey(l.name), Channel(l.name), LatchKey(l.name, requestID)}
	freed, err := l.peer.evalInt(ctx, fairReleaseScript, keys,
		unlockMessage, l.lease.Load(), l.Owner(), l.peer.now(), publish, milliseconds(latchLife))
	return l.released(freed, err)
}

// ForceUnlock frees the lock, no matter who holds it, wakes the first waiter, and reports whether the lock was held.
func (l *RFairLock) ForceUnlock(ctx context.Context) (bool, error) {
	l.peer.watchdog.forget(l.name)
	keys := []string{l.name, FairQueueKey(l.name), FairTimeoutKey(l.name), Channel(l.name)}
	existed, err := l.peer.evalInt(ctx, fairForceReleaseScript, keys, unlockMessage, l.peer.now(), publish)
	return existed != nil && *existed == 1, err
}

// now is the peer's wall clock in ms.
func (p *Peer) now() int64 { return time.Now().Add(p.clockAhead).UnixMilli() }
