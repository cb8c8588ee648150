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
)

// link receives messages over one connection (connection.go), and replaces the connection when it breaks. Another goroutine checks that the server is
// still the right one (link_server.go). The goroutines of a link share with the actor only the fields under mu. The link notifies the actor when
// there are updates, and does not notify it again before the actor has read them. So a flood of messages from Redis costs one message to the actor,
// and one map entry per channel.
type link struct {
	config *Config
	owner  *actor.PID
	node   *redisnode.Node // the master whose sharded messages the link receives; nil if the link receives the messages of all masters
	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	group  sync.WaitGroup

	// owned by the subscriber
	channels int
	closing  clock.Timer // closes the link after linkRest without channels

	mu     sync.Mutex
	conn   *connection // nil while not connected
	subs   subscriptions
	told   map[string]channelUpdate // updates that the actor has not read yet
	posted bool                     // a message to the actor about updates is on its way
}

// channelUpdate is what has happened to a channel since the actor last looked.
type channelUpdate struct {
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

	// After a connection that lasted for linkPeace, the next one is made within about 20 ms. If the connection broke sooner, but the server had replied
	// on it, the pause is about 160 ms at most, and 80 ms on average.
	linkPeace = time.Second
	brokenMax = 4 // if the server replied on the last connection, at most this many failures count for the length of the pause

	textsMax = 10_000 // limit on the number of demands that the actor has not read yet; the locks of this library never send so many
)

func openLink(config *Config, owner *actor.PID, node *redisnode.Node) *link {
	l := &link{
		config: config, owner: owner, node: node, subs: newSubscriptions(node != nil), told: map[string]channelUpdate{},
	}
	l.ctx, l.cancel = context.WithCancel(config.Ctx)
	l.group.Go(l.run)
	switch {
	case node != nil:
		l.group.Go(l.remind)
	case config.Own != nil:
		l.group.Go(l.stay)
	default:
		l.group.Go(l.move)
	}
	return l
}

// close ends the connection. It returns when the goroutines of the link have ended, which may take as long as a handshake.
func (l *link) close() {
	l.cancel()
	l.group.Wait()
}

// want subscribes to a channel, in a command of its own if single is true. It drops an earlier update of the channel, which is out of date.
func (l *link) want(channel string, single bool) {
	_ = l.change(func() error {
		delete(l.told, channel)
		if l.subs.want(channel, single) {
			l.told[channel] = channelUpdate{subscribed: true}
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

// change runs f under mu. Then it wakes the writer and, if there are updates, the actor.
func (l *link) change(f func() error) error {
	l.mu.Lock()
	err := f()
	post := l.toPost()
	if l.conn != nil {
		l.conn.wakeWriter()
	}
	l.mu.Unlock()
	if post {
		l.config.Root.Send(l.owner, linkUpdated{l})
	}
	return err
}

// toPost reports whether a message to the actor is needed: there are updates, and no message is on its way.
func (l *link) toPost() bool {
	post := len(l.told) > 0 && !l.posted
	l.posted = l.posted || post
	return post
}

// run makes one connection after the other. The pause before the next connection depends on how long the last one lasted. go-redis calls
// functions of the user, and such a function may end this goroutine (runtime.Goexit). In that case, another goroutine continues.
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
		if l.node != nil {
			l.config.Root.Send(l.owner, linkTrouble{l})
		}
		l.pause(l.config.Backoff(failures))
	}
	over = true
}

// pause waits for a time, and reports whether the link is still open.
func (l *link) pause(d time.Duration) bool {
	over, timer := clock.After(l.config.Clock, d)
	select {
	case <-over:
	case <-l.ctx.Done():
		timer.Stop()
	}
	return l.ctx.Err() == nil
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

// takeMessage counts a message for the subscriber. If the subscriber is idle, Send runs the subscriber on this goroutine, and the subscriber may run
// the actor of the lock there as well (package mailbox). So the mutex must not be held during Send.
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
		l.config.Root.Send(l.owner, linkUpdated{l})
	}
}

func (l *link) takeSubscription(m *redis.Subscription) error {
	if m.Kind == "subscribe" || m.Kind == "ssubscribe" {
		l.told[m.Channel] = channelUpdate{subscribed: true, texts: l.told[m.Channel].texts}
		return l.subs.subscribed(m.Channel)
	}
	if l.subs.unsubscribed(m.Channel) {
		l.told[m.Channel] = channelUpdate{refused: errMoved}
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
			l.told[channel] = channelUpdate{refused: refusal, single: a.single}
		case wanted: // the server refused to unsubscribe, so the link is still subscribed to the channel, which it wants again
			l.told[channel] = channelUpdate{subscribed: true}
		}
	}
	return err
}

// updates returns what has happened since the last call.
func (l *link) updates() map[string]channelUpdate {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.told, l.posted = map[string]channelUpdate{}, false
	return told
}
