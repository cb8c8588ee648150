package peer

import (
	"context"

	"github.com/redis/go-redis/v9"
)

var barePublishPeer = &Peer{
	Name: "bare-publish",
	About: "one PUBLISH to a waiter that is subscribed, through go-redis, without any lock library: what a message from one process to " +
		"another takes",
	Source:  "Redis's documentation of PUBLISH",
	Role:    Floor,
	Kinds:   exclusiveOnly,
	NoLock:  true,
	Modules: []string{"github.com/redis/go-redis/v9"},
	Keys:    sameKey,
	Open: func(_ context.Context, env Env) (Client, error) {
		return &barePublishClient{redis.NewClient(&redis.Options{Addr: env.Redis})}, nil
	},
}

// passOn publishes a message that hands the lock to the waiter, and keeps the key. If nobody is subscribed, it deletes the key, which frees the lock.
var passOn = redis.NewScript(`if redis.call('publish', KEYS[1], '') == 0 then redis.call('del', KEYS[1]) end return 0`)

type barePublishClient struct{ redis *redis.Client }

// Acquire acquires a free lock with SETNX, and waits for a message if the lock is taken. If two clients wait, both receive the message, and
// both get the lock.
func (c *barePublishClient) Acquire(ctx context.Context, _ Kind, name string) (Held, error) {
	held := &barePublishHeld{redis: c.redis, name: name, left: make(chan struct{})}
	if set, err := c.redis.SetNX(ctx, name, "", 0).Result(); set || err != nil {
		close(held.left)
		return held, err
	}
	subscription := c.redis.Subscribe(ctx, name)
	defer func() { go held.leave(subscription) }()
	if _, err := subscription.Receive(ctx); err != nil {
		return held, err
	}
	if set, err := c.redis.SetNX(ctx, name, "", 0).Result(); set || err != nil { // the lock was released before the subscription
		return held, err
	}
	_, err := subscription.ReceiveMessage(ctx)
	return held, err
}

func (c *barePublishClient) Close() error { return c.redis.Close() }

type barePublishHeld struct {
	redis *redis.Client
	name  string
	left  chan struct{} // closed when the holder is no longer subscribed
}

// leave unsubscribes and waits for the server to confirm it.
func (h *barePublishHeld) leave(subscription *redis.PubSub) {
	defer close(h.left)
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if err := subscription.Unsubscribe(ctx, h.name); err == nil {
		_, _ = subscription.Receive(ctx)
	}
	_ = subscription.Close()
}

// Release waits until the holder has unsubscribed, because a subscribed holder would count as a waiter. In practice there is no wait: the holder
// unsubscribes right after its acquire, and hand-overs are milliseconds apart.
func (h *barePublishHeld) Release(ctx context.Context) error {
	<-h.left
	return passOn.Run(ctx, h.redis, []string{h.name}).Err()
}
