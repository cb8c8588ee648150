package preflight

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/redisnode"
)

// subscription is a channel to subscribe to.
type subscription struct {
	channel string
	sharded bool
}

// listen subscribes to channels, and calls f with the server's answer for each: a refusal, or nil. If an answer is missing, it does not call f.
func (c *check) listen(ctx context.Context, channels []subscription, f func(pubsub *redis.PubSub, in []error)) {
	var err error
	defer redisnode.RecoverTo(&err)
	if len(channels) == 0 {
		return
	}
	pubsub := c.node.Client.Subscribe(ctx) // no channel yet, so this sends nothing
	in, err := eachChannel(ctx, pubsub, channels, pubsub.Subscribe, pubsub.SSubscribe)
	if err == nil {
		f(pubsub, in)
	}
	_ = pubsub.Close() // not deferred: if go-redis panics while it reconnects, a mutex that Close needs may stay locked; no connection is open then
}

// eachChannel sends one command for each channel, all before it reads the first answer. A single command for all channels would not do: the server
// would refuse it if the right to any channel were missing. refused has for each channel the refusal, or nil. err says why an answer is missing.
func eachChannel(
	ctx context.Context, pubsub *redis.PubSub, channels []subscription, plain, sharded func(ctx context.Context, channels ...string) error,
) (refused []error, err error) {
	refused = make([]error, len(channels))
	for _, s := range channels {
		send := plain
		if s.sharded {
			send = sharded
		}
		if err := send(ctx, s.channel); err != nil {
			return refused, err
		}
	}
	for i := range refused {
		_, err := pubsub.ReceiveTimeout(ctx, redisnode.ReplyWait)
		if err != nil && !redisnode.IsReply(err) {
			return refused, err
		}
		refused[i] = err
	}
	return refused, nil
}
