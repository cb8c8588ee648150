package pubsub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
)

// link receives messages over one connection, and replaces the connection when it breaks. One goroutine reads, another one writes subscriptions,
// and without a cluster a third one checks the connection's server (link_place.go). These goroutines share only the fields under mu with the
// actor. Until the actor has read the news, the link sends it only one message, no matter how many arrive from Redis. So a flood costs one map
// entry per channel.
//
// After an error, go-redis would by itself subscribe again to all channels in one command, and would drop a refusal. So go-redis is kept from
// connecting again: each connection is a PubSub of its own, and is used under redisnode.Connected.
type link struct {
	config *Config
	owner  *actor.PID
	home   *redisnode.Node // the master whose messages it receives, by sharded subscriptions; nil: the messages of all masters
	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	wake   chan struct{} // wakes the writer
	group  sync.WaitGroup

	// owned by the subscriber
	channels int
	closing  clock.Timer // closes the link after linkRest without channels

	mu     sync.Mutex
	pubsub *redis.PubSub // nil: not connected
	subs   subscriptions
	told   map[string]channelNews
	posted bool
}

// channelNews is what has happened to a channel since the actor last looked.
type channelNews struct {
	subscribed bool  // the server has confirmed the subscription
	refused    error // the error of Redis, or errMoved; the link does not subscribe again
	single     bool  // the refused command had no other channel
	messages   int
	texts      map[string]struct{} // messages of the demand channel, at most textsMax
}

// errMoved says that the slot of a channel has left the master of the link.
var errMoved = errors.New("the slot has moved")

const (
	pingAfter = 5 * time.Second  // after this much silence a ping is sent
	deadAfter = 10 * time.Second // after this much silence the connection counts as broken

	// After a connection that lasted for linkPeace, the next one is made after about 20 ms at most. After a shorter one that has worked, the pause
	// is about 160 ms at most, and 80 ms on average.
	linkPeace = time.Second
	brokenMax = 4 // the most failures that count for the pause after a connection that has worked

	textsMax = 10_000 // limit of demands that the actor has not read yet; the locks of this library never send so many
)

func openLink(config *Config, owner *actor.PID, home *redisnode.Node) *link {
	l := &link{
		config: config, owner: owner, home: home, wake: make(chan struct{}, 1),
		subs: newSubscriptions(home != nil), told: map[string]channelNews{},
	}
	l.ctx, l.cancel = context.WithCancel(config.Ctx)
	l.group.Go(l.write)
	l.group.Go(l.run)
	if config.Own != nil {
		l.group.Go(l.stay)
	}
	return l
}

// close ends the connection. It returns when the goroutines of the link have ended, which may take as long as a handshake.
func (l *link) close() {
	l.cancel()
	l.group.Wait()
}

// want subscribes to a channel, in a command of its own if single. It drops earlier news of the channel, which is out of date.
func (l *link) want(channel string, single bool) {
	_ = l.change(func() error {
		delete(l.told, channel)
		if l.subs.want(channel, single) {
			l.told[channel] = channelNews{subscribed: true}
		}
		return nil
	})
}

// drop ends the subscription to a channel.
func (l *link) drop(channel string) {
	_ = l.change(func() error {
		delete(l.told, channel)
		l.subs.drop(channel)
		return nil
	})
}

// change runs f under mu, then wakes the writer, and the actor if there is news.
func (l *link) change(f func() error) error {
	l.mu.Lock()
	err := f()
	post := l.toPost()
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	if post {
		l.config.Root.Send(l.owner, linkNews{l})
	}
	return err
}

// toPost reports whether a message to the actor is needed: there is news, and no message is on its way.
func (l *link) toPost() bool {
	post := len(l.told) > 0 && !l.posted
	l.posted = l.posted || post
	return post
}

// run makes one connection after the other. The pauses between them depend on how long the connections last. A function of the user that go-redis
// calls may end the goroutine (runtime.Goexit); then another one continues.
func (l *link) run() {
	over := false
	defer func() {
		if !over {
			l.group.Go(func() {
				l.pause(l.config.Backoff(1))
				l.run()
			})
		}
	}()
	for try, failures := 0, 0; l.ctx.Err() == nil; try++ {
		start := l.config.Clock.Now()
		worked := l.connect(try)
		failures++
		switch {
		case l.config.Clock.Now()-start >= linkPeace:
			failures = 1
		case worked:
			failures = min(failures, brokenMax)
		}
		if l.home != nil {
			l.config.Root.Send(l.owner, linkTrouble{l})
		}
		l.pause(l.config.Backoff(failures))
	}
	over = true
}

// pause waits for a time, and reports whether the link is still open.
func (l *link) pause(d time.Duration) bool {
	over := make(chan struct{})
	timer := l.config.Clock.AfterFunc(d, func() { close(over) })
	select {
	case <-over:
	case <-l.ctx.Done():
		timer.Stop()
	}
	return l.ctx.Err() == nil
}

// connect makes a connection and reads from it until it breaks or the link is closed. It reports whether the server has replied at all.
func (l *link) connect(try int) (worked bool) {
	defer l.config.Events.RecoverIn("connection")
	pubsub, err := l.dial(try)
	if err != nil {
		return false
	}
	defer context.AfterFunc(l.ctx, func() { _ = pubsub.Close() })()
	defer l.begin(nil)
	defer pubsub.Close()
	l.begin(pubsub)
	for last := l.config.Clock.Now(); ; {
		message, err := pubsub.ReceiveTimeout(redisnode.Connected, pingAfter)
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

// dial makes a connection and sends a ping. The client's timeouts bound the handshake of a go-redis connection.
func (l *link) dial(try int) (*redis.PubSub, error) {
	n := l.home
	if n == nil {
		if n = l.config.Nodes.Any(try); n == nil {
			return nil, rpc.ErrNoAnswer
		}
	}
	ctx, cancel := context.WithTimeout(l.ctx, deadAfter)
	defer cancel()
	pubsub := n.Client.Subscribe(ctx) // no channel yet, so this sends nothing
	if err := pubsub.Ping(ctx); err != nil {
		_ = pubsub.Close()
		return nil, err
	}
	return pubsub, nil
}

// begin gives the writer a new connection; nil: there is none. The reply to the ping of dial has not arrived yet.
func (l *link) begin(pubsub *redis.PubSub) {
	_ = l.change(func() error {
		l.pubsub = pubsub
		l.subs.reset()
		l.subs.expect(&ask{do: askPing})
		return nil
	})
}

// write sends commands whenever it is woken. If that fails, it closes the connection, and the reader notices.
func (l *link) write() {
	for {
		select {
		case <-l.wake:
		case <-l.ctx.Done():
			return
		}
		l.mu.Lock()
		pubsub := l.pubsub
		var send []ask
		if pubsub != nil {
			send = l.subs.next()
		}
		l.mu.Unlock()
		for _, a := range send {
			if l.send(pubsub, a) != nil {
				_ = pubsub.Close()
				break
			}
		}
	}
}

func (l *link) send(pubsub *redis.PubSub, a ask) (err error) {
	defer redisnode.RecoverTo(&err)
	switch {
	case a.do == askPing:
		return pubsub.Ping(redisnode.Connected)
	case a.do == askSubscribe && l.home != nil:
		return pubsub.SSubscribe(redisnode.Connected, a.channels...)
	case a.do == askSubscribe:
		return pubsub.Subscribe(redisnode.Connected, a.channels...)
	case l.home != nil:
		return pubsub.SUnsubscribe(redisnode.Connected, a.channels...)
	}
	return pubsub.Unsubscribe(redisnode.Connected, a.channels...)
}

// take handles a message of the server.
func (l *link) take(message any) error {
	switch m := message.(type) {
	case *redis.Message:
		l.takeMessage(m)
	case *redis.Pong:
		return l.change(l.subs.pong)
	case *redis.Subscription:
		return l.change(func() error { return l.takeSubscription(m) })
	}
	return nil
}

// takeMessage counts a message for the subscriber. If the subscriber is idle, Send runs it on this goroutine, and through it the actor of the
// lock (package mailbox). So the mutex must not be held meanwhile.
func (l *link) takeMessage(m *redis.Message) {
	l.mu.Lock()
	known := l.told[m.Channel]
	known.messages++
	if m.Channel == l.config.Demand && len(known.texts) < textsMax {
		if known.texts == nil {
			known.texts = map[string]struct{}{}
		}
		known.texts[m.Payload] = struct{}{}
	}
	l.told[m.Channel] = known
	post := l.toPost()
	l.mu.Unlock()
	if post {
		l.config.Root.Send(l.owner, linkNews{l})
	}
}

func (l *link) takeSubscription(m *redis.Subscription) error {
	if m.Kind == "subscribe" || m.Kind == "ssubscribe" {
		l.told[m.Channel] = channelNews{subscribed: true, texts: l.told[m.Channel].texts}
		return l.subs.subscribed(m.Channel)
	}
	if l.subs.unsubscribed(m.Channel) {
		l.told[m.Channel] = channelNews{refused: errMoved}
	}
	return nil
}

// takeRefusal handles an error in reply to the oldest command.
func (l *link) takeRefusal(refusal error) error {
	a, err := l.subs.refused()
	for _, channel := range a.channels {
		_, wanted := l.subs.wanted[channel]
		switch {
		case a.do == askSubscribe:
			l.told[channel] = channelNews{refused: refusal, single: a.single}
		case wanted: // an unsubscribe was refused, and the channel is wanted again: it is still subscribed
			l.told[channel] = channelNews{subscribed: true}
		}
	}
	return err
}

// news returns what has happened since the last call.
func (l *link) news() map[string]channelNews {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.told, l.posted = map[string]channelNews{}, false
	return told
}
