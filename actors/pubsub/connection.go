package pubsub

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/redisnode"
)

// connection is a connection of a link. One goroutine reads, and another one writes subscriptions.
//
// By itself, go-redis would connect again after an error, and subscribe to all channels in one command. If the server refused that command, the
// refusal would be lost. So go-redis must not connect again: each connection of a link has a PubSub of its own, and uses it under the context
// redisnode.Connected.
type connection struct {
	pubsub *redis.PubSub
	server *redisnode.Node
	try    int             // the number with which Nodes.Any chose the server; unused if the link has a node of its own
	ctx    context.Context // ends with the connection
	end    context.CancelFunc
	wake   chan struct{} // wakes the writer
}

// connect makes a connection and reads from it until it breaks or the link is closed. It reports whether the server has replied at all.
func (l *link) connect(try int) (worked bool) {
	defer l.config.Events.RecoverIn("connection")
	server := l.node
	if server == nil {
		server = l.config.Nodes.Any(try)
	}
	if server == nil {
		return false
	}
	server = l.config.Nodes.Keep(server)
	defer l.config.Nodes.Forget(server)
	pubsub, err := l.dial(server)
	if err != nil {
		return false
	}
	c := &connection{pubsub: pubsub, server: server, try: try, wake: make(chan struct{}, 1)}
	c.ctx, c.end = context.WithCancel(l.ctx)
	defer c.end()
	defer context.AfterFunc(c.ctx, func() { _ = pubsub.Close() })()
	defer l.begin(nil)
	l.begin(c)
	var writer sync.WaitGroup
	writer.Go(func() { l.write(c) })
	worked = l.read(c)

	// The calls below are not deferred. In read, go-redis calls the user's DialHook while it holds a mutex of the PubSub. If the hook panics or ends its
	// goroutine, the mutex stays locked. Deferred calls would run even then, and writer.Wait and pubsub.Close might never return. If the hook hangs,
	// this link gets no messages until the hook returns.
	c.end()
	writer.Wait()
	_ = pubsub.Close()
	return worked
}

// dial makes a connection and sends a ping. go-redis's handshake on the new connection is limited by the client's timeouts, but not by the
// context of the ping.
func (l *link) dial(n *redisnode.Node) (*redis.PubSub, error) {
	ctx, cancel := context.WithTimeout(l.ctx, deadAfter)
	defer cancel()
	pubsub := n.Client.Subscribe(ctx) // no channel yet, so this sends nothing
	if err := pubsub.Ping(ctx); err != nil {
		_ = pubsub.Close()
		return nil, err
	}
	return pubsub, nil
}

// begin makes c the connection of the link. If c is nil, the link has no connection now. begin also notes that the server has yet to reply to the
// ping that dial has sent.
func (l *link) begin(c *connection) {
	_ = l.change(func() error {
		l.conn = c
		l.subs.reset()
		l.subs.expect(&ask{do: askPing})
		return nil
	})
}

// read reads until the connection breaks or ends. It reports whether the server has replied at all.
func (l *link) read(c *connection) (worked bool) {
	for last := l.config.Clock.Now(); ; {
		message, err := c.pubsub.ReceiveTimeout(redisnode.Connected, pingAfter)
		now := l.config.Clock.Now()
		switch {
		case redisnode.IsReply(err):
			err = l.change(func() error { return l.takeRefusal(err) })
		case redisnode.IsTimeout(err) && now-last < deadAfter:
			_ = l.change(func() error { l.subs.tick(); return nil })
			continue
		case err == nil:
			err = l.take(message)
		}
		if err != nil {
			return worked
		}
		last, worked = now, true
	}
}

// wakeWriter makes the writer send what the link has to send. It does not block.
func (c *connection) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write sends commands whenever it is woken. If that fails, it ends the connection.
func (l *link) write(c *connection) {
	defer c.end()
	for {
		select {
		case <-c.wake:
		case <-c.ctx.Done():
			return
		}
		for _, a := range l.toSend(c) {
			if l.send(c.pubsub, a) != nil {
				return
			}
		}
	}
}

// toSend returns the commands that are to be sent over a connection now: none if the link has another connection.
func (l *link) toSend(c *connection) []ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return nil
	}
	return l.subs.next()
}

func (l *link) send(pubsub *redis.PubSub, a ask) (err error) {
	defer redisnode.RecoverTo(&err)
	switch {
	case a.do == askPing:
		return pubsub.Ping(redisnode.Connected)
	case a.do == askSubscribe && l.node != nil:
		return pubsub.SSubscribe(redisnode.Connected, a.channels...)
	case a.do == askSubscribe:
		return pubsub.Subscribe(redisnode.Connected, a.channels...)
	case l.node != nil:
		return pubsub.SUnsubscribe(redisnode.Connected, a.channels...)
	}
	return pubsub.Unsubscribe(redisnode.Connected, a.channels...)
}
