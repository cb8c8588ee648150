package redissonpeer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// MultiLock combines several locks into one and takes them in the given order. A MultiLock has no keys of its own. If `allowed` is 0, it is
// Redisson's RedissonMultiLock. Otherwise it is Redisson's RedissonRedLock, which counts as held although up to `allowed` members are not held.
type MultiLock struct {
	locks   []*RLock
	allowed int
}

// MultiLock returns a lock that is held while all of these locks are held.
func (p *Peer) MultiLock(locks ...*RLock) *MultiLock { return &MultiLock{locks: locks} }

// RedLock returns a lock that is held while a majority of these locks is held.
func (p *Peer) RedLock(locks ...*RLock) *MultiLock {
	return &MultiLock{locks: locks, allowed: len(locks) - (len(locks)/2 + 1)}
}

const baseWait = 1500 * time.Millisecond // for each lock

// Lock tries until it holds the locks or ctx ends.
func (m *MultiLock) Lock(ctx context.Context, lease time.Duration) error {
	for {
		base := baseWait * time.Duration(len(m.locks))
		wait := base
		switch {
		case lease > base:
			wait = base + rand.N(lease-base)
		case lease > 0:
			wait = lease/2 + rand.N(lease/2)
		}
		held, err := m.TryLock(ctx, wait, lease)
		if held || err != nil {
			return err
		}
	}
}

// TryLock waits for the locks for at most `wait`, or not at all if `wait` is 0. If it fails, it releases all members.
func (m *MultiLock) TryLock(ctx context.Context, wait, lease time.Duration) (bool, error) {
	provisional := lease
	if lease > 0 && wait > 0 {
		provisional = 2 * wait
	}
	end := time.Now().Add(wait)
	perLock := wait
	if m.allowed > 0 {
		perLock = max(wait/time.Duration(len(m.locks)), time.Millisecond)
	}
	var acquired []*RLock
	failures := m.allowed
	for i := 0; i < len(m.locks); i++ {
		if err := ctx.Err(); err != nil {
			m.unlockAll(ctx, acquired)
			return false, err
		}
		lock := m.locks[i]
		switch {
		case lock.tryFor(ctx, min(perLock, max(time.Until(end), 0)), provisional):
			acquired = append(acquired, lock)
		case len(m.locks)-len(acquired) == m.allowed:
			return true, m.settle(ctx, acquired, lease) // enough members
		case failures == 0:
			m.unlockAll(ctx, acquired)
			if wait <= 0 {
				return false, nil
			}
			failures, acquired, i = m.allowed, nil, -1
		default:
			failures--
		}
		if wait > 0 && !time.Now().Before(end) {
			m.unlockAll(ctx, acquired)
			return false, nil
		}
	}
	return true, m.settle(ctx, acquired, lease)
}

// settle gives the acquired locks the caller's lease instead of the provisional one. If `lease` is 0, settle changes nothing, because the watchdog
// renews the locks.
func (m *MultiLock) settle(ctx context.Context, acquired []*RLock, lease time.Duration) error {
	var errs []error
	for _, lock := range acquired {
		if lease > 0 {
			errs = append(errs, lock.peer.client.PExpire(ctx, lock.name, lease).Err())
		}
	}
	return errors.Join(errs...)
}

// tryFor waits for a lock for at most `wait`, or not at all if `wait` is 0.
func (l *RLock) tryFor(ctx context.Context, wait, lease time.Duration) bool {
	if wait <= 0 {
		held, err := l.TryLock(ctx, lease)
		return held && err == nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return l.Lock(ctx, lease) == nil
}

func (m *MultiLock) unlockAll(ctx context.Context, locks []*RLock) {
	for _, lock := range locks {
		_ = lock.Unlock(context.WithoutCancel(ctx))
	}
}

// Unlock releases the locks one after the other and stops at the first error. A red lock tries all of them and returns no error.
func (m *MultiLock) Unlock(ctx context.Context) error {
	for _, lock := range m.locks {
		if err := lock.Unlock(ctx); err != nil && m.allowed == 0 {
			return err
		}
	}
	return nil
}

// IsHeld reports whether all member locks are held.
func (m *MultiLock) IsHeld(ctx context.Context) (bool, error) {
	for _, lock := range m.locks {
		held, err := lock.IsHeld(ctx)
		if !held || err != nil {
			return false, err
		}
	}
	return true, nil
}
