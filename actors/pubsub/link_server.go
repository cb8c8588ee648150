package pubsub

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/actors/redisnode"
)

// A link checks its server every 5 s. The method stay doubles the interval after each check that fails, because a failed check costs a connection.
// With a Redis service that does not count the receivers of a message correctly, every check fails.
const (
	serverEvery    = 5 * time.Second
	serverEveryMax = 5 * time.Minute
)

// remind asks the subscriber every 5 s to compare the master of the link with the masters that the cluster client knows now. The link itself does not
// notice that its master has become a replica: the connection stays open, and the replica passes on the messages of the new master. But a release at
// the new master does not count this subscriber, so the releasing process concludes that nobody waits for the lock.
func (l *link) remind() {
	for l.pause(serverEvery) {
		l.config.Root.Send(l.owner, linkDue{l})
	}
}

// move is for a link that receives the messages of all masters. Such a link is connected to the master of some slot (Nodes.Any). When the slot has
// another master, move ends the connection, so that the link connects to the new master. Without move, the connection to a server that has left the
// cluster would stay open, but the messages of the cluster would no longer arrive on it.
func (l *link) move() {
	for l.pause(serverEvery) {
		l.mu.Lock()
		c := l.conn
		l.mu.Unlock()
		if c == nil {
			continue
		}
		if now := l.config.Nodes.Any(c.try); now != nil && now != c.server {
			c.end()
		}
	}
}

// stay makes sure that the link is connected to the server that executes the scripts. A host name or an address may be moved to a new master. Then
// new connections for commands lead to the new master, but the link may still be connected to the old master. The link may even receive messages
// there: if the old master has become a replica of the new one, the new master passes its messages on to the old one. But a release at the new
// master does not count this subscriber, so the releasing process concludes that nobody waits for the lock.
//
// To detect this, stay publishes a message to a channel to which only this link is subscribed. It uses the client that sends the commands. If the
// message has no receiver, the link and that client are connected to different servers.
func (l *link) stay() {
	own, err := l.config.Own()
	if err != nil {
		return
	}
	for every := serverEvery; l.pause(every); {
		c := l.listening(own)
		if c == nil {
			continue
		}
		n, err := l.publish(own)
		switch {
		case err != nil: // no right to publish, or no server: the check proves nothing
		case n > 0:
			every = serverEvery
		default:
			every = min(2*every, serverEveryMax)
			c.end() // the link then makes a new connection, which leads to the same server as new connections for commands
		}
	}
}

// listening returns the present connection if it is subscribed to the link's own channel. Otherwise it returns nil, and asks for that
// subscription if the link has other channels.
func (l *link) listening(own string) (c *connection) {
	_ = l.change(func() error {
		wanted := len(l.subs.wanted)
		_, asked := l.subs.wanted[own]
		switch {
		case l.subs.has[own]:
			c = l.conn
		case wanted > 0 && !asked:
			l.subs.want(own, true)
		}
		return nil
	})
	return c
}

func (l *link) publish(channel string) (receivers int64, err error) {
	defer redisnode.RecoverTo(&err)
	ctx, cancel := context.WithTimeout(l.ctx, redisnode.ReplyWait)
	defer cancel()
	command := redisnode.NewCommand("publish", channel, "0")
	_ = l.config.Nodes.Any(0).Client.Process(ctx, command)
	return command.Int64()
}
