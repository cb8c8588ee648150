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

// RFairLock is a fair lock as one thread of a peer sees it. Its clock is the peer's, which may be wrong: see Config.
type RFairLock struct{ RLock }

var _ Lock = (*RFairLock)(nil)

// RFairLock is the fair lock of that name for a thread of this peer.
func (p *Peer) RFairLock(name string, thread int64) *RFairLock {
	l := &RFairLock{RLock{peer: p, name: name, thread: thread, field: p.owner(thread)}}
	l.lease.Store(milliseconds(p.watchdog.lease))
	return l
}

// FairQueueKey is the list of who waits, FairTimeoutKey their scores.
func FairQueueKey(name string) string   { return prefixed("redisson_lock_queue", name) }
func FairTimeoutKey(name string) string { return prefixed("redisson_lock_timeout", name) }

// TryLock takes the lock if it is free and nobody waits, or if it is this thread's already.
func (l *RFairLock) TryLock(ctx context.Context, lease time.Duration) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	ttl, err := l.acquire(ctx, lease, false)
	return err == nil && ttl == nil, err
}

// Lock waits in the queue until ctx ends, and leaves it then.
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

// acquire makes one try: nil if the lock is held now, else for how long to wait.
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

// Unlock gives one hold back. Of a lock that is free it succeeds, as Redisson's does.
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

// Release sends one release request and leaves its latch behind.
func (l *RFairLock) Release(ctx context.Context, requestID string) (Outcome, error) {
	keys := []string{l.name, FairQueueKey(l.name), FairTimeoutKey(l.name), Channel(l.name), LatchKey(l.name, requestID)}
	freed, err := l.peer.evalInt(ctx, fairReleaseScript, keys,
		unlockMessage, l.lease.Load(), l.Owner(), l.peer.now(), publish, milliseconds(latchLife))
	return l.released(freed, err)
}

// ForceUnlock frees the lock whoever holds it, tells the first who waits, and reports whether anybody held it.
func (l *RFairLock) ForceUnlock(ctx context.Context) (bool, error) {
	l.peer.watchdog.forget(l.name)
	keys := []string{l.name, FairQueueKey(l.name), FairTimeoutKey(l.name), Channel(l.name)}
	existed, err := l.peer.evalInt(ctx, fairForceReleaseScript, keys, unlockMessage, l.peer.now(), publish)
	return existed != nil && *existed == 1, err
}

// now is the peer's wall clock in ms.
func (p *Peer) now() int64 { return time.Now().Add(p.clockAhead).UnixMilli() }
