package redissonpeer

import (
	"context"
	_ "embed"
)

//go:embed latch.lua
var latchScript string

// Latch is Redisson's RCountDownLatch. Its waiters are woken only by the message that the count is zero. If that message is lost, or the latch is
// deleted, the waiters keep waiting.
type Latch struct {
	peer *Peer
	name string
}

// Latch returns the count-down latch with this name.
func (p *Peer) Latch(name string) *Latch { return &Latch{peer: p, name: name} }

func (l *Latch) eval(ctx context.Context, operation string, count int) (int64, error) {
	n, err := l.peer.evalInt(ctx, latchScript, []string{l.name, LatchChannel(l.name)}, operation, count, publish)
	if err != nil || n == nil {
		return 0, err
	}
	return *n, nil
}

// TrySetCount sets the count if the latch does not exist.
func (l *Latch) TrySetCount(ctx context.Context, count int) (bool, error) {
	n, err := l.eval(ctx, "try set", count)
	return n == 1, err
}

// CountDown lowers the count by one, and wakes the waiters if the count is then zero.
func (l *Latch) CountDown(ctx context.Context) error {
	_, err := l.eval(ctx, "count down", 0)
	return err
}

// Count returns the remaining count.
func (l *Latch) Count(ctx context.Context) (int64, error) { return l.eval(ctx, "count", 0) }

// Delete removes the latch.
func (l *Latch) Delete(ctx context.Context) (bool, error) {
	n, err := l.eval(ctx, "delete", 0)
	return n == 1, err
}

// Await waits until the count is zero or ctx ends. It subscribes to the channel, and waits for messages while the
// count is above zero.
func (l *Latch) Await(ctx context.Context) error {
	n, err := l.Count(ctx)
	if n <= 0 || err != nil {
		return err
	}
	ch, err := l.peer.joinTold(ctx, LatchChannel(l.name), latchWakes)
	if err != nil {
		return err
	}
	defer l.peer.leave(ch)
	for {
		n, err := l.Count(ctx)
		if n <= 0 || err != nil {
			return err
		}
		if err := ch.await(ctx, -1); err != nil {
			return err
		}
	}
}

// latchWakes returns how many waiters of a latch a message wakes: all for ZERO_COUNT, none for NEW_COUNT.
func latchWakes(ch *channel, payload string) (permits int64, ok bool) {
	switch payload {
	case "0":
		ch.peer.mu.Lock()
		defer ch.peer.mu.Unlock()
		return int64(ch.users), true
	case "1":
		return 0, true
	}
	return 0, false
}
