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
	field  string // says in the hash that this thread holds the lock

	// lease is what a release with holds left sets, and an acquire without a lease, in ms: that of the last acquire. In Redisson it
	// belongs to the lock object, too, and goes back to the watchdog's with the last release.
	lease atomic.Int64
}

// RLock is the lock of that name for a thread of this peer. Threads are told apart by number only.
func (p *Peer) RLock(name string, thread int64) *RLock {
	l := &RLock{peer: p, name: name, thread: thread, field: p.owner(thread)}
	l.lease.Store(milliseconds(p.watchdog.lease))
	return l
}

// Owner is the hash field that says that this thread holds the lock.
func (l *RLock) Owner() string { return l.field }

// TryLock takes the lock if it is free or already this thread's. A lease of 0 is the watchdog's, renewed
// until Unlock; another one is not renewed.
func (l *RLock) TryLock(ctx context.Context, lease time.Duration) (bool, error) {
	return tryBy(ctx, func() (*time.Duration, error) { return l.acquire(ctx, lease) })
}

// Lock waits for the lock until ctx ends: it subscribes to the lock's channel, tries again, and then waits
// for a message or for the end of the lock's TTL before each further try. When the result of a try is
// unknown it gives up with that error, as Redisson does.
func (l *RLock) Lock(ctx context.Context, lease time.Duration) error {
	return l.peer.lockBy(ctx, Channel(l.name), func() (*time.Duration, error) { return l.acquire(ctx, lease) })
}

// acquire makes one try. It returns nil if the lock is held now, else the remaining TTL of whoever holds it,
// negative for none.
func (l *RLock) acquire(ctx context.Context, lease time.Duration) (*time.Duration, error) {
	lease, watched := l.terms(lease)
	ttl, err := l.peer.evalInt(ctx, acquireScript, []string{l.name}, milliseconds(lease), l.Owner())
	return l.acquired(ttl, err, lease, watched, l.peer.watchdog)
}

// terms are the lease of a try, and whether it is renewed. Without a lease of its own a try has that of the object, which is the one
// given before if this thread holds the lock already, and else the watchdog's: the next renewal sets the watchdog's anyway.
func (l *RLock) terms(lease time.Duration) (of time.Duration, watched bool) {
	if lease > 0 {
		return lease, false
	}
	return time.Duration(l.lease.Load()) * time.Millisecond, true
}

// acquired reads the reply of a try, and has the watchdog renew what was got.
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

// HoldCount is how often this thread holds the lock.
func (l *RLock) HoldCount(ctx context.Context) (int64, error) {
	n, err := l.peer.client.HGet(ctx, l.name, l.Owner()).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}
