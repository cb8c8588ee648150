package actors

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/scripts"
)

// link is the connection for messages. One goroutine reads, one writes subscriptions; both only touch what is under mu, and the
// actor is told by one message however much there is to tell: a flood of messages costs a map entry per channel, no more.
type link struct {
	engine *Engine
	owner  *actor.PID
	home   *node           // whose messages it brings, by sharded subscriptions; nil: everybody's
	ctx    context.Context // ends with the link, for connections on their way
	cancel context.CancelFunc
	wake   chan struct{} // to the writer
	group  sync.WaitGroup

	// owned by the subscriber
	channels int
	closing  Timer // closes it when it is not used

	mu     sync.Mutex
	pubsub *redis.PubSub
	wanted map[string]bool // what the writer has to do: subscribe or not
	all    map[string]struct{}
	told   map[string]channelNews
	posted bool
	closed bool
}

// channelNews is what has happened to a channel since the actor looked.
type channelNews struct {
	subscribed bool // confirmed, maybe again
	dropped    bool // unsubscribed
	messages   int
}

const (
	pingAfter = 5 * time.Second  // of silence
	deadAfter = 10 * time.Second // of silence: the connection is given up
)

func openLink(e *Engine, owner *actor.PID, home *node) *link {
	l := &link{
		engine: e, owner: owner, home: home, wake: make(chan struct{}, 1),
		wanted: map[string]bool{}, all: map[string]struct{}{}, told: map[string]channelNews{},
	}
	l.ctx, l.cancel = context.WithCancel(e.ctx)
	l.pubsub = l.connect()
	l.group.Go(l.write)
	l.group.Go(l.read)
	return l
}

// connect is a connection on which nothing is subscribed to.
func (l *link) connect() *redis.PubSub {
	if l.home != nil {
		return l.home.client.SSubscribe(l.ctx)
	}
	return l.engine.listens.Subscribe(l.ctx)
}

// want subscribes to a channel, or ends that.
func (l *link) want(channel string, subscribe bool) {
	l.mu.Lock()
	l.wanted[channel] = subscribe
	if subscribe {
		l.all[channel] = struct{}{}
	} else {
		delete(l.all, channel)
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// write sends subscriptions, many channels in one command.
func (l *link) write() {
	for {
		select {
		case <-l.wake:
		case <-l.ctx.Done():
			return
		}
		l.mu.Lock()
		pubsub := l.pubsub
		var on, off []string
		for _, channel := range slices.Sorted(maps.Keys(l.wanted)) {
			if l.wanted[channel] {
				on = append(on, channel)
			} else {
				off = append(off, channel)
			}
		}
		clear(l.wanted)
		l.mu.Unlock()
		// Errors show at the reader, which connects anew; go-redis then subscribes to all channels again.
		ctx, cancel := l.briefly()
		l.send(ctx, off, pubsub.Unsubscribe, pubsub.SUnsubscribe)
		l.send(ctx, on, pubsub.Subscribe, pubsub.SSubscribe)
		cancel()
	}
}

// send asks for channels in one command, or in one for each slot.
func (l *link) send(ctx context.Context, channels []string, plain, sharded func(context.Context, ...string) error) {
	if l.home == nil {
		if len(channels) > 0 {
			_ = plain(ctx, channels...)
		}
		return
	}
	slots := map[uint16][]string{}
	for _, channel := range channels {
		slot := scripts.Slot(channel)
		slots[slot] = append(slots[slot], channel)
	}
	for _, together := range slots {
		_ = sharded(ctx, together...)
	}
}

// read takes what comes, and keeps the connection alive or replaces it.
func (l *link) read() {
	last, failures := l.engine.clock.Now(), 0
	for l.ctx.Err() == nil {
		message, err := l.receive(last)
		now := l.engine.clock.Now()
		switch {
		case err == nil:
			last, failures = now, 0
			l.take(message)
		case isTimeout(err) && now-last < deadAfter:
		case isTimeout(err):
			l.replace()
			last = now
		default:
			failures++
			l.pause(failures)
			if l.home != nil { // go-redis would subscribe to all slots in one command, and be refused
				l.replace()
				l.engine.root.Send(l.owner, linkTrouble{l})
			}
		}
	}
}

// receive waits for something to come, and when nothing does asks for a sign of life.
func (l *link) receive(last time.Duration) (any, error) {
	l.mu.Lock()
	pubsub := l.pubsub
	l.mu.Unlock()
	ctx, cancel := l.briefly()
	defer cancel()
	message, err := pubsub.ReceiveTimeout(ctx, pingAfter)
	if isTimeout(err) && l.engine.clock.Now()-last < deadAfter {
		_ = pubsub.Ping(ctx)
	}
	return message, err
}

// briefly bounds the handshake of a new connection, which go-redis may repeat for a long time.
func (l *link) briefly() (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.ctx, deadAfter)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// pause waits before the next attempt to connect, with full jitter.
func (l *link) pause(failures int) {
	ended := make(chan struct{})
	timer := l.engine.clock.AfterFunc(l.engine.policy.backoff(failures), func() { close(ended) })
	select {
	case <-ended:
	case <-l.ctx.Done():
		timer.Stop()
	}
}

// replace gives up a connection that answers nothing, and subscribes to everything on a new one.
func (l *link) replace() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	old := l.pubsub
	l.pubsub = l.connect()
	for channel := range l.all {
		l.wanted[channel] = true
	}
	l.mu.Unlock()
	_ = old.Close() // may have to wait for a connection attempt
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *link) take(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		l.tell(m.Channel, func(n channelNews) channelNews {
			if m.Kind == "subscribe" || m.Kind == "ssubscribe" {
				return channelNews{subscribed: true}
			}
			return channelNews{dropped: true}
		})
	case *redis.Message:
		l.tell(m.Channel, func(n channelNews) channelNews {
			n.messages++
			return n
		})
	}
}

func (l *link) tell(channel string, change func(channelNews) channelNews) {
	l.mu.Lock()
	l.told[channel] = change(l.told[channel])
	post := !l.posted
	l.posted = true
	l.mu.Unlock()
	if post {
		l.engine.root.Send(l.owner, linkNews{l})
	}
}

// news takes what has happened since the last call.
func (l *link) news() map[string]channelNews {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.told, l.posted = map[string]channelNews{}, false
	return told
}

// close ends the connection and returns when its goroutines have ended, which may take as long as a handshake.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	pubsub := l.pubsub
	l.mu.Unlock()
	l.cancel()
	_ = pubsub.Close()
	l.group.Wait()
}
