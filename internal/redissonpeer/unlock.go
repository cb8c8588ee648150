package redissonpeer

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"fmt"
	"time"
)

var (
	//go:embed release.lua
	releaseScript string
	//go:embed force_release.lua
	forceReleaseScript string
)

const (
	unlockMessage  = "0"
	releaseTries   = 5 // the first request and 4 retries
	releaseBackoff = 100 * time.Millisecond
	latchLife      = 20 * time.Second // the life of a latch: the longest time for which Redisson keeps one by default
)

// Outcome is the outcome of a release.
type Outcome int

const (
	NotHeld   Outcome = iota // this thread had no hold; nothing was changed
	StillHeld                // holds are left
	Freed                    // that was the last hold
)

// Unlock releases one hold. Like Redisson's unlock, it repeats a request whose result is unknown, with the same request id.
// Afterwards it removes the request's latch, the key that keeps the result. It returns ErrNotHeld if this thread has no
// hold.
func (l *RLock) Unlock(ctx context.Context) error {
	return l.unlockBy(ctx, l.Release, l.peer.watchdog)
}

func (l *RLock) unlockBy(
	ctx context.Context, release func(ctx context.Context, requestID string) (Outcome, error), watchdogs ...*watchdog,
) error {
	requestID := NewRequestID()
	outcome, err := release(ctx, requestID)
	for try := 1; err != nil && try < releaseTries; try++ {
		if pause(ctx, releaseBackoff) != nil {
			break
		}
		outcome, err = release(ctx, requestID)
	}
	for _, w := range watchdogs {
		w.cancel(l.name, l.thread) // whatever the outcome
	}
	if err != nil {
		return fmt.Errorf("redissonpeer: unlock %q: %w", l.name, err)
	}
	// If the latch cannot be deleted, it expires.
	_ = l.peer.client.Del(context.WithoutCancel(ctx), LatchKey(l.name, requestID)).Err()
	if outcome == NotHeld {
		return fmt.Errorf("%w: lock %q, owner %s", ErrNotHeld, l.name, l.Owner())
	}
	return nil
}

// Release sends one release request. The result stays in Redis until the request's latch expires. Sending the request again
// under the same id changes nothing and returns the same result.
func (l *RLock) Release(ctx context.Context, requestID string) (Outcome, error) {
	keys := []string{l.name, Channel(l.name), LatchKey(l.name, requestID)}
	freed, err := l.peer.evalInt(ctx, releaseScript, keys,
		unlockMessage, l.lease.Load(), l.Owner(), publish, milliseconds(latchLife))
	return l.released(freed, err)
}

// released reads the reply of a release.
func (l *RLock) released(freed *int64, err error) (Outcome, error) {
	if err != nil {
		return NotHeld, err
	}
	if freed != nil && *freed == 0 {
		return StillHeld, nil
	}
	l.lease.Store(milliseconds(l.peer.watchdog.lease)) // even if this thread held nothing
	if freed == nil {
		return NotHeld, nil
	}
	return Freed, nil
}

// ForceUnlock frees the lock, no matter who holds it, and reports whether it was held. The holder is not notified.
func (l *RLock) ForceUnlock(ctx context.Context) (bool, error) {
	l.peer.watchdog.forget(l.name)
	existed, err := l.peer.evalInt(ctx, forceReleaseScript, []string{l.name, Channel(l.name)},
		unlockMessage, publish)
	return existed != nil && *existed == 1, err
}

// NewRequestID returns a new id for Release.
func NewRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
