package redissonpeer

import (
	"context"
	_ "embed"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed acquire.lua
var acquireScript string

// RLock is a reentrant lock as one thread of a peer sees it.
type RLock struct {
	peer   *Peer
	name   string
	thread int64
	field  string // the hash field that shows that this thread holds the lock

	// lease is the lease of the last acquire, in ms. Two calls set the lock's TTL to this value again: an acquire without a lease of its own, and a
	// release that leaves the thread with holds. The release of the last hold resets the value to the watchdog's lease. As in Redisson, each lock
	// object has its own value.
	lease atomic.Int64
}

// RLock returns the lock with this name, for one thread of the peer. The number alone identifies the thread.
func (p *Peer) RLock(name string, thread int64) *RLock {
	l := &RLock{peer: p, name: name, thread: thread, field: p.owner(thread)}
	l.lease.Store(milliseconds(p.watchdog.lease))
	return l
}

// Owner returns the hash field that shows that this thread holds the lock.
func (l *RLock) Owner() string { return l.field }

// TryLock takes the lock if it is free or this thread already holds it. With a lease of 0 the watchdog renews the
// lease until Unlock; any other lease is not renewed.
func (l *RLock) TryLock(ctx context.Context, lease time.Duration) (bool, error) {
	return tryBy(ctx, func() (*time.Duration, error) { return l.acquire(ctx, lease) })
}

// Lock waits for the lock until ctx ends. It subscribes to the lock's channel and tries again. Before each further try
// it waits for a message or for the end of the lock's TTL. If the result of a try is unknown, it returns the error of
// that try, as Redisson does.
func (l *RLock) Lock(ctx context.Context, lease time.Duration) error {
	return l.peer.lockBy(ctx, Channel(l.name), func() (*time.Duration, error) { return l.acquire(ctx, lease) })
}

// acquire makes one try. It returns nil if this thread now holds the lock, else the lock's remaining TTL, which is negative if the
// lock has none.
func (l *RLock) acquire(ctx context.Context, lease time.Duration) (*time.Duration, error) {
	lease, watched := l.terms(lease)
	ttl, err := l.peer.evalInt(ctx, acquireScript, []string{l.name}, milliseconds(lease), l.Owner())
	return l.acquired(ttl, err, lease, watched, l.peer.watchdog)
}

// terms returns the lease of a try, and whether the watchdog renews it. A try without a lease uses l.lease. If this thread already
// holds the lock, that is the lease of its last acquire; otherwise it is the watchdog's lease. Renewals always use the watchdog's lease.
func (l *RLock) terms(lease time.Duration) (of time.Duration, watched bool) {
	if lease > 0 {
		return lease, false
	}
	return time.Duration(l.lease.Load()) * time.Millisecond, true
}

// acquired reads the reply to a try. If the try got the lock and watched is true, the watchdog begins to renew it.
func (l *RLock) acquired(ttl *int64, err error, lease time.Duration, watched bool, w *watchdog) (*time.Duration, error) {
	if err != nil {
		return nil, err
	}
	if ttl != nil {
		remaining := time.Duration(*ttl) * time.Millisecond
		return &remaining, nil
	}
	l.lease.Store(milliseconds(lease))
	if watched {
		w.add(l.name, l.thread, l.field)
	}
	return nil, nil
}

// IsLocked reports whether anybody holds the lock.
func (l *RLock) IsLocked(ctx context.Context) (bool, error) {
	n, err := l.peer.client.Exists(ctx, l.name).Result()
	return n > 0, err
}

// IsHeld reports whether this thread holds the lock.
func (l *RLock) IsHeld(ctx context.Context) (bool, error) {
	return l.peer.client.HExists(ctx, l.name, l.Owner()).Result()
}

// HoldCount returns how many holds of the lock this thread has.
func (l *RLock) HoldCount(ctx context.Context) (int64, error) {
	n, err := l.peer.client.HGet(ctx, l.name, l.Owner()).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}
