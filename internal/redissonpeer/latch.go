package redissonpeer

import (
	"context"
	_ "embed"
)

//go:embed latch.lua
var latchScript string

// Latch is Redisson's RCountDownLatch. Those who wait are released by the message of the zero only: not by a
// delete, and not at all when the message is lost.
type Latch struct {
	peer *Peer
	name string
}

// Latch is the count-down latch of that name.
func (p *Peer) Latch(name string) *Latch { return &Latch{peer: p, name: name} }

func (l *Latch) eval(ctx context.Context, operation string, count int) (int64, error) {
	n, err := l.peer.evalInt(ctx, latchScript, []string{l.name, LatchChannel(l.name)}, operation, count, publish)
	if err != nil || n == nil {
		return 0, err
	}
	return *n, nil
}

// TrySetCount sets the count if there is none.
func (l *Latch) TrySetCount(ctx context.Context, count int) (bool, error) {
	n, err := l.eval(ctx, "try set", count)
	return n == 1, err
}

// CountDown makes the count one less and tells the zero.
func (l *Latch) CountDown(ctx context.Context) error {
	_, err := l.eval(ctx, "count down", 0)
	return err
}

// Count is what is left to count.
func (l *Latch) Count(ctx context.Context) (int64, error) { return l.eval(ctx, "count", 0) }

// Delete removes the latch.
func (l *Latch) Delete(ctx context.Context) (bool, error) {
	n, err := l.eval(ctx, "delete", 0)
	return n == 1, err
}

// Await waits for zero until ctx ends: it subscribes to the channel, and waits for a message as long as the
// count is more than zero.
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

// latchWakes: ZERO_COUNT wakes all, NEW_COUNT nobody.
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
