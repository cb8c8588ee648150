package redissonpeer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	subscribeWait = 7500 * time.Millisecond // Redisson's limit for getting a subscription
	maxPermits    = 4096                    // wake-ups that are kept for later waiters
)

// channel is a peer's subscription to the channel of one lock, semaphore or latch. All waiters of the peer share the subscription, and the last
// waiter to leave ends it.
type channel struct {
	peer    *Peer
	name    string
	pubsub  *redis.PubSub
	users   int                // guarded by peer.mu
	cancel  context.CancelFunc // ends the attempt to subscribe
	ready   chan struct{}      // closed when the attempt to subscribe has ended
	err     error              // of that attempt; written before ready is closed
	ended   chan struct{}      // closed when the reader has ended
	permits chan struct{}      // each permit lets one waiter try again; a permit that no waiter has taken stays
	waiting atomic.Int64       // waiters that are blocked in await
	wakes   func(ch *channel, payload string) (permits int64, ok bool)
}

// join subscribes to the channel of a lock, or shares the subscription of another waiter. It waits until the server has confirmed the subscription.
// Every successful join needs a leave.
func (p *Peer) join(ctx context.Context, name string) (*channel, error) {
	return p.joinTold(ctx, name, lockWakes)
}

// joinTold is like join, for a channel of any kind. `wakes` returns the number of waiters that a message wakes.
func (p *Peer) joinTold(
	ctx context.Context, name string, wakes func(ch *channel, payload string) (permits int64, ok bool),
) (*channel, error) {
	ch := p.enter(name, wakes)
	var err error
	select {
	case <-ch.ready:
		err = ch.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.closed:
		err = ErrClosed
	}
	if err != nil {
		p.leave(ch)
		return nil, err
	}
	return ch, nil
}

func (p *Peer) enter(name string, wakes func(ch *channel, payload string) (int64, bool)) *channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := p.channels[name]
	if ch == nil {
		ch = &channel{
			peer:    p,
			name:    name,
			pubsub:  p.client.Subscribe(context.Background()), // without channels, so it does not connect yet
			ready:   make(chan struct{}),
			ended:   make(chan struct{}),
			permits: make(chan struct{}, maxPermits),
			wakes:   wakes,
		}
		var ctx context.Context
		ctx, ch.cancel = context.WithTimeout(context.Background(), subscribeWait)
		p.channels[name] = ch
		go ch.read(ctx)
	}
	ch.users++
	return ch
}

// leave ends a waiter's use of the subscription. The last waiter to leave ends the subscription. A waiter that joins while the subscription is
// ending makes a new one.
func (p *Peer) leave(ch *channel) {
	p.mu.Lock()
	ch.users--
	last := ch.users == 0
	if last {
		delete(p.channels, ch.name)
	}
	p.mu.Unlock()
	if last {
		ch.cancel()
		_ = ch.pubsub.Close()
		<-ch.ended
	}
}

// read subscribes and then turns messages into permits until the subscription is closed.
func (ch *channel) read(ctx context.Context) {
	defer close(ch.ended)
	ch.err = ch.subscribe(ctx)
	ch.cancel()
	close(ch.ready)
	if ch.err != nil {
		return
	}
	for message := range ch.pubsub.Channel() {
		ch.take(message.Payload)
	}
}

func (ch *channel) subscribe(ctx context.Context) error {
	if err := ch.pubsub.Subscribe(ctx, ch.name); err != nil {
		return fmt.Errorf("redissonpeer: subscribe to %s: %w", ch.name, err)
	}
	reply, err := ch.pubsub.ReceiveTimeout(ctx, subscribeWait)
	if err != nil {
		return fmt.Errorf("redissonpeer: subscribe to %s: %w", ch.name, err)
	}
	if _, ok := reply.(*redis.Subscription); !ok {
		return fmt.Errorf("redissonpeer: subscribe to %s: unexpected %v", ch.name, reply)
	}
	return nil
}

// lockWakes returns how many waiters of a lock a message wakes: one for UNLOCK, all for READ_UNLOCK.
func lockWakes(ch *channel, payload string) (permits int64, ok bool) {
	switch payload {
	case "0":
		return 1, true
	case "1":
		return ch.waiting.Load(), true
	}
	return 0, false
}

func (ch *channel) take(payload string) {
	permits, ok := ch.wakes(ch, payload)
	if !ok {
		ch.peer.malformed.Add(1)
		return
	}
	for range permits {
		select {
		case ch.permits <- struct{}{}:
		default: // the channel is full of permits that no waiter has taken, so one more is not needed
			return
		}
	}
}

// await waits for a message, but no longer than the duration `remaining`, which is the lock's TTL. If `remaining` is negative,
// there is no limit.
func (ch *channel) await(ctx context.Context, remaining time.Duration) error {
	ch.waiting.Add(1)
	defer ch.waiting.Add(-1)
	var ttlOver <-chan time.Time
	if remaining >= 0 {
		timer := time.NewTimer(max(remaining, time.Millisecond))
		defer timer.Stop()
		ttlOver = timer.C
	}
	select {
	case <-ch.permits:
		ch.peer.byMessage.Add(1)
	case <-ttlOver:
		ch.peer.byTTL.Add(1)
	case <-ctx.Done():
		return ctx.Err()
	case <-ch.peer.closed:
		return ErrClosed
	}
	return nil
}

// Blocked returns how many callers are waiting for a message, on all channels. A caller whose try has failed, but who does not wait yet, is not
// counted. As in Redisson, a READ_UNLOCK at that moment does not wake this caller.
func (p *Peer) Blocked() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ch := range p.channels {
		n += ch.waiting.Load()
	}
	return n
}
