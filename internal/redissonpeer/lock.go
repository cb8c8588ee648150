package redissonpeer

import (
	"context"
	"time"
)

// Lock has the methods that all locks of a peer share. RLock describes them.
type Lock interface {
	Owner() string
	TryLock(ctx context.Context, lease time.Duration) (bool, error)
	Lock(ctx context.Context, lease time.Duration) error
	Unlock(ctx context.Context) error
	Release(ctx context.Context, requestID string) (Outcome, error)
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	IsHeld(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int64, error)
}

var _ Lock = (*RLock)(nil)

// tryBy calls the function `try` once, and reports whether the lock was acquired. `try` returns nil if it has acquired the lock.
func tryBy(ctx context.Context, try func() (*time.Duration, error)) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	remaining, err := try()
	return err == nil && remaining == nil, err
}

// lockBy calls `try`, subscribes to the channel and calls `try` again. If `try` returns a duration, lockBy waits for a message, but no longer than
// that duration, and then calls `try` again.
func (p *Peer) lockBy(ctx context.Context, channel string, try func() (*time.Duration, error)) error {
	held, err := tryBy(ctx, try)
	if held || err != nil {
		return err
	}
	ch, err := p.join(ctx, channel)
	if err != nil {
		return err
	}
	defer p.leave(ch)
	for {
		remaining, err := try()
		if err != nil || remaining == nil {
			return err
		}
		if err := ch.await(ctx, *remaining); err != nil {
			return err
		}
	}
}
