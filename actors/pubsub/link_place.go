package pubsub

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/redisnode"
)

// How often a link looks whether it is at the server that executes the scripts: every 5 s while it is. Where a server's count of receivers
// means nothing, looking ever more seldom keeps the connections few.
const (
	placeEvery    = 5 * time.Second
	placeEveryMax = 5 * time.Minute
)

// stay sees to it that the connection is to the server that executes the scripts. Behind a name, or an address that is moved, another
// server becomes the master: commands get there with their next connection, but this connection may live on at the old one. Messages may
// even come, from the new master to its replica, but who publishes does not count us, and takes the lock to be wanted by nobody.
//
// So the link publishes to a channel that only it is subscribed to, the way commands go, and is to be among the receivers.
func (l *link) stay() {
	own, err := l.config.Own()
	if err != nil {
		return
	}
	for every := placeEvery; l.pause(every); {
		pubsub := l.listening(own)
		if pubsub == nil {
			continue
		}
		n, err := l.publish(own)
		switch {
		case err != nil: // no rights to publish, or no server: nothing is known
		case n > 0:
			every = placeEvery
		default:
			every = min(2*every, placeEveryMax)
			_ = pubsub.Close() // if it still is the link's: the next one goes where commands go
		}
	}
}

// listening is the present connection if it is subscribed to the link's own channel. Otherwise it may be the next time.
func (l *link) listening(own string) (pubsub *redis.PubSub) {
	_ = l.change(func() error {
		wanted := len(l.subs.wanted)
		_, asked := l.subs.wanted[own]
		switch {
		case l.subs.has[own]:
			pubsub = l.pubsub
		case wanted > 0 && !asked:
			l.subs.want(own, true)
		}
		return nil
	})
	return pubsub
}

func (l *link) publish(channel string) (receivers int64, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, redisnode.ReplyWait)
	defer cancel()
	command := redisnode.NewCommand("publish", channel, "0")
	_ = l.config.Nodes.Any(0).Client.Process(ctx, command)
	return command.Int64()
}
