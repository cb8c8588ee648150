package redissonpeer

import (
	"context"
	"time"
)

// Lock is what all locks of a peer can do; see RLock.
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
