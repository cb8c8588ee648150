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

// listen subscribes to channels and waits for the server's answers. Then it calls f once, with one entry of `in` for each channel: the refusal, or
// nil. If any answer is missing, it does not call f.
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
	// Close is not deferred. If go-redis panics while it connects again, a mutex may stay locked, and Close would wait for it for ever. No connection
	// is open in that case, so Close is not needed.
	_ = pubsub.Close()
}

// eachChannel sends one command for each channel, and then reads the answers. It does not name all channels in one command, because the server
// would refuse that command if the right to any one channel were missing. refused has one entry for each channel: the refusal, or nil. If an
// answer is missing, err says why.
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
