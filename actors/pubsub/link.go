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

// link is the connection for messages, and replaces it when it breaks. One goroutine reads, one writes subscriptions; both only touch
// what is under mu. However much there is to tell, the actor gets one message: a flood of messages costs a map entry per channel.
//
// go-redis would subscribe again by itself, to all channels in one command, and drop the refusal. So it never gets to connect twice: each
// connection is a PubSub of its own, see ended.
type link struct {
	config *Config
	owner  *actor.PID
	home   *redisnode.Node // whose messages it brings, by sharded subscriptions; nil: everybody's
	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	wake   chan struct{} // to the writer
	group  sync.WaitGroup

	// owned by the subscriber
	channels int
	closing  clock.Timer // closes it when it is not used

	mu     sync.Mutex
	pubsub *redis.PubSub // nil: there is no connection
	subs   subscriptions
	told   map[string]channelNews
	posted bool
}

// channelNews is what has happened to a channel since the actor looked.
type channelNews struct {
	subscribed bool  // confirmed
	refused    error // or errMoved; the link does not try again
	single     bool  // no other channel was refused with it
	messages   int
}

// errMoved says that a channel's slot has left the link's master.
var errMoved = errors.New("the slot has moved")

const (
	pingAfter = 5 * time.Second  // of silence
	deadAfter = 10 * time.Second // of silence: the connection is given up

	// A connection that lasts for linkPeace is well: the next one is made at once. One that breaks sooner, but has worked, is replaced
	// after 160 ms at most, in the mean after 80.
	linkPeace = time.Second
	brokenMax = 4 // failures
)

// ended is the context of everything that go-redis does on a connection. It would connect again by itself after an error, and cannot
// under a context that has ended; reading and writing only look at a context's deadline, and it has none.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

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

// close ends the connection and returns when its goroutines have ended, which may take as long as a handshake.
func (l *link) close() {
	l.cancel()
	l.group.Wait()
}

// want subscribes to a channel, in a command of its own if single. What was told of it is out of date.
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

// change changes what is under mu, and has the writer and the actor look at it.
func (l *link) change(f func() error) error {
	l.mu.Lock()
	err := f()
	post := l.toPost()
	l.mu.Unlock()
	l.poke()
	if post {
		l.config.Root.Send(l.owner, linkNews{l})
	}
	return err
}

// toPost reports whether the actor has to be told that there is something to look at.
func (l *link) toPost() bool {
	post := len(l.told) > 0 && !l.posted
	l.posted = l.posted || post
	return post
}

// poke has the writer look for something to send.
func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run makes one connection after the other, with pauses that follow from how well they have done.
func (l *link) run() {
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
}

// pause waits for a while, and reports whether the link is still open.
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

// connect makes a connection and reads until it breaks or the link is closed. It reports whether the server has replied to anything.
func (l *link) connect(try int) (worked bool) {
	pubsub, err := l.dial(try)
	if err != nil {
		return false
	}
	defer context.AfterFunc(l.ctx, func() { _ = pubsub.Close() })()
	defer l.begin(nil)
	defer pubsub.Close()
	l.begin(pubsub)
	for last := l.config.Clock.Now(); ; {
		message, err := pubsub.ReceiveTimeout(ended, pingAfter)
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

// dial makes a connection, with a ping on its way. The handshake of a go-redis connection is bounded by the client's timeouts.
func (l *link) dial(try int) (*redis.PubSub, error) {
	n := l.home
	if n == nil {
		if n = l.config.Nodes.Any(try); n == nil {
			return nil, rpc.ErrNoAnswer
		}
	}
	ctx, cancel := context.WithTimeout(l.ctx, deadAfter)
	defer cancel()
	pubsub := n.Client.Subscribe(ctx) // to nothing, which asks nobody
	if err := pubsub.Ping(ctx); err != nil {
		_ = pubsub.Close()
		return nil, err
	}
	return pubsub, nil
}

// begin has the writer use a new connection; nil: none.
func (l *link) begin(pubsub *redis.PubSub) {
	_ = l.change(func() error {
		l.pubsub = pubsub
		l.subs.reset()
		l.subs.expect(&ask{do: askPing})
		return nil
	})
}

// write sends what there is to send whenever it is woken. When that fails the reader finds out.
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

func (l *link) send(pubsub *redis.PubSub, a ask) error {
	switch {
	case a.do == askPing:
		return pubsub.Ping(ended)
	case a.do == askSubscribe && l.home != nil:
		return pubsub.SSubscribe(ended, a.channels...)
	case a.do == askSubscribe:
		return pubsub.Subscribe(ended, a.channels...)
	case l.home != nil:
		return pubsub.SUnsubscribe(ended, a.channels...)
	}
	return pubsub.Unsubscribe(ended, a.channels...)
}

// take handles what the server has sent.
func (l *link) take(message any) error {
	switch m := message.(type) {
	case *redis.Message:
		l.takeMessage(m.Channel)
	case *redis.Pong:
		return l.change(l.subs.pong)
	case *redis.Subscription:
		return l.change(func() error { return l.takeSubscription(m) })
	}
	return nil
}

func (l *link) takeMessage(channel string) {
	l.mu.Lock()
	known := l.told[channel]
	known.messages++
	l.told[channel] = known
	post := l.toPost()
	l.mu.Unlock()
	if post {
		l.config.Root.Send(l.owner, linkNews{l})
	}
}

func (l *link) takeSubscription(m *redis.Subscription) error {
	if m.Kind == "subscribe" || m.Kind == "ssubscribe" {
		l.told[m.Channel] = channelNews{subscribed: true}
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
		case wanted: // again, since it was sent
			l.told[channel] = channelNews{subscribed: true}
		}
	}
	return err
}

// news takes what has happened since the last call.
func (l *link) news() map[string]channelNews {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.told, l.posted = map[string]channelNews{}, false
	return told
}
