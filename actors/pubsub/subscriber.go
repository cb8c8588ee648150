package pubsub

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Config is what the subscriber needs of its runtime.
type Config struct {
	Ctx     context.Context // ends when nobody listens any more
	Clock   clock.Clock
	Root    *actor.RootContext
	Events  *outbox.Events
	Nodes   redisnode.Nodes
	Publish *redisnode.PublishMode
	Errors  *redisnode.Errors
	Backoff func(failures int) time.Duration // before the next connection, or the next attempt to subscribe to a channel
	// Own is the channel by which a connection finds out whether it is at the server that executes the scripts. nil: whoever releases does
	// not count receivers, so it does not matter.
	Own func() (channel string, err error)
}

// New makes the actor.
func New(c Config) *subscriber {
	return &subscriber{Config: c, channels: map[string]*channelState{}, links: map[*redisnode.Node]*link{}}
}

// subscriber fans unlock messages out to the lock actors that wait. It owns which actor waits on which channel, and the connection
// for messages, which exists only while somebody waits and for a while after. Where messages are told by the master of their channel
// alone, there is one for each master, and a channel follows its slot.
//
// It never loses a wake-up: whatever could have swallowed a message ends in a confirmation that the channel is subscribed to, and that
// wakes everybody of the channel. What Redis refuses is repeated, each channel by itself, with back-off.
type subscriber struct {
	Config

	// owned by the actor
	channels map[string]*channelState
	links    map[*redisnode.Node]*link // by whose messages they bring; nil: everybody's
	ended    sync.WaitGroup            // those that are closing
	again    clock.Timer               // for the channels that were refused
	againAt  time.Duration
}

type channelState struct {
	name    string
	link    *link // nil: it is not known yet who tells its messages, or Redis has refused to subscribe
	waiting []*actor.PID
	ready   bool // the server has confirmed the subscription

	refusals int           // in a row; after the first it is asked for in a command of its own
	retryAt  time.Duration // after a refusal
	reported bool          // an event has told of them
}

type (
	// Subscribe subscribes an actor to a channel, for waiters of the lock with this name.
	Subscribe struct {
		Channel string
		Name    string
		Who     *actor.PID
	}
	// Unsubscribe ends that.
	Unsubscribe struct {
		Channel string
		Who     *actor.PID
	}
	// NodesDiscovered says that the masters of a cluster are known, or others than before.
	NodesDiscovered struct{}
	// linkNews says that the link has something to tell.
	linkNews struct{ link *link }
	// linkTrouble says that the master of some of its channels may be another now.
	linkTrouble struct{ link *link }
	// linkIdle says that the link was unused for linkLinger.
	linkIdle struct{ link *link }
	// retryChannels says that a channel that was refused may be asked for again.
	retryChannels struct{}
	Stop          struct{ Done chan struct{} }
)

const (
	// linkLinger is how long the connection stays open after the last waiter has left.
	linkLinger = 10 * time.Second
	// refusalsMax is how many refusals that may pass an event waits for: a second or two.
	refusalsMax = 8
)

// Receive is the actor's only entry.
func (s *subscriber) Receive(c actor.Context) {
	defer s.Events.RecoverIn("subscriber")
	switch m := c.Message().(type) {
	case Subscribe:
		s.watch(c, m)
	case Unsubscribe:
		s.unwatch(c, m)
	case linkNews:
		if s.links[m.link.home] == m.link {
			s.onNews(c, m.link)
		}
	case linkTrouble:
		s.Nodes.Suspect()
		s.rehome(c, m.link)
	case NodesDiscovered:
		s.findHomes(c)
	case retryChannels:
		s.retry(c)
	case linkIdle:
		if s.links[m.link.home] == m.link && m.link.channels == 0 {
			s.closeLink(m.link)
		}
	case Stop:
		s.stop(m.Done)
	}
}

func (s *subscriber) watch(c actor.Context, m Subscribe) {
	state := s.channels[m.Channel]
	if state == nil {
		state = &channelState{name: m.Name}
		s.channels[m.Channel] = state
		s.attach(c, m.Channel, state)
	}
	state.waiting = append(state.waiting, m.Who)
	if state.ready {
		c.Send(m.Who, wait.ChannelReady{Channel: m.Channel})
	}
}

// unwatch forgets a channel that nobody waits on; one that was refused stays until it may be asked for again, whoever comes and goes.
func (s *subscriber) unwatch(c actor.Context, m Unsubscribe) {
	state := s.channels[m.Channel]
	if state == nil {
		return
	}
	for i, pid := range state.waiting {
		if pid.Equal(m.Who) {
			state.waiting = append(state.waiting[:i], state.waiting[i+1:]...)
			break
		}
	}
	if len(state.waiting) == 0 && state.retryAt == 0 {
		delete(s.channels, m.Channel)
		s.detach(c, m.Channel, state)
	}
}

// attach has a link bring the messages of a channel, if it is known which.
func (s *subscriber) attach(c actor.Context, channel string, state *channelState) {
	home, known := s.Publish.Server(s.Nodes, channel)
	if !known {
		return
	}
	l := s.links[home]
	if l == nil {
		if home != nil {
			home = s.Nodes.Keep(home)
		}
		l = openLink(&s.Config, c.Self(), home)
		s.links[home] = l
	}
	state.link = l
	l.channels++
	l.want(channel, state.refusals > 0)
}

func (s *subscriber) detach(c actor.Context, channel string, state *channelState) {
	if state.link == nil {
		return
	}
	state.link.drop(channel)
	s.leave(c, state)
}

// leave says that the link does not bring the channel's messages any more.
func (s *subscriber) leave(c actor.Context, state *channelState) {
	l := state.link
	state.link, state.ready = nil, false
	if l.channels--; l.channels == 0 {
		s.linger(c, l)
	}
}

func (s *subscriber) linger(c actor.Context, idle *link) {
	if idle.closing != nil {
		idle.closing.Stop()
	}
	root, self := s.Root, c.Self()
	idle.closing = s.Clock.AfterFunc(linkLinger, func() { root.Send(self, linkIdle{idle}) })
}

// findHomes subscribes to what has waited for the masters to be known.
func (s *subscriber) findHomes(c actor.Context) {
	for channel, state := range s.channels {
		if state.link == nil && state.retryAt == 0 {
			s.attach(c, channel, state)
		}
	}
}

// rehome looks where the messages of a link's channels come from now. Who moves is woken when it is subscribed there.
func (s *subscriber) rehome(c actor.Context, l *link) {
	for channel, state := range s.channels {
		if state.link != l {
			continue
		}
		if home, known := s.Publish.Server(s.Nodes, channel); known && home != l.home {
			s.detach(c, channel, state)
			s.attach(c, channel, state)
		}
	}
}

func (s *subscriber) onNews(c actor.Context, l *link) {
	again, pauses := 0, map[int]time.Duration{}
	told := l.news()
	for _, channel := range slices.Sorted(maps.Keys(told)) {
		news, state := told[channel], s.channels[channel]
		if state == nil || state.link != l {
			continue // unsubscribed meanwhile
		}
		switch {
		case news.refused != nil:
			state.refusals++
			if pauses[state.refusals] == 0 { // what is refused together is asked for together
				pauses[state.refusals] = s.Backoff(state.refusals)
			}
			s.onRefused(c, channel, state, news, pauses[state.refusals])
		case news.subscribed:
			ready := wait.ChannelReady{Channel: channel}
			if state.ready || state.refusals > 0 {
				ready.Among = l.channels
				again++
			}
			state.ready, state.refusals, state.reported = true, 0, false
			s.tell(c, state, ready)
		case state.ready:
			s.tell(c, state, wait.ChannelMessage{Channel: channel, Releases: news.messages})
		}
	}
	if again > 0 {
		s.Events.Emit(protocol.Reconnected{Channels: again})
	}
}

// onRefused waits before it asks for a channel again, of the master that its slot has by then.
func (s *subscriber) onRefused(c actor.Context, channel string, state *channelState, news channelNews, pause time.Duration) {
	s.leave(c, state)
	state.retryAt = s.Clock.Now() + pause
	s.retryBy(c, state.retryAt)
	class := scripts.Classify(news.refused)
	if class != scripts.Rejected {
		s.Nodes.Suspect()
	}
	if !state.reported && (class == scripts.Rejected && news.single || state.refusals == refusalsMax) {
		state.reported = true
		s.Events.Emit(protocol.SubscribeRefused{Name: state.name, Channel: channel, Err: s.Errors.ExplainWithHint(news.refused)})
	}
}

// retryBy sets the timer for the channels that were refused.
func (s *subscriber) retryBy(c actor.Context, at time.Duration) {
	if s.again != nil && s.againAt <= at {
		return
	}
	if s.again != nil {
		s.again.Stop()
	}
	root, self := s.Root, c.Self()
	s.againAt = at
	s.again = s.Clock.AfterFunc(at-s.Clock.Now(), func() { root.Send(self, retryChannels{}) })
}

// retry asks again for the channels that were refused long enough ago, and forgets those that nobody waits on.
func (s *subscriber) retry(c actor.Context) {
	s.again = nil
	now := s.Clock.Now()
	var due []string
	for channel, state := range s.channels {
		switch {
		case state.retryAt == 0:
		case state.retryAt > now:
			s.retryBy(c, state.retryAt)
		case len(state.waiting) == 0:
			delete(s.channels, channel)
		default:
			due = append(due, channel)
		}
	}
	slices.Sort(due)
	for _, channel := range due {
		state := s.channels[channel]
		state.retryAt = 0
		s.attach(c, channel, state)
	}
}

func (s *subscriber) tell(c actor.Context, state *channelState, message any) {
	for _, pid := range state.waiting {
		c.Send(pid, message)
	}
}

func (s *subscriber) stop(done chan struct{}) {
	if s.again != nil {
		s.again.Stop()
	}
	for _, l := range s.links {
		s.closeLink(l)
	}
	go func() {
		s.ended.Wait()
		close(done)
	}()
}

// closeLink closes a link in the background: it may take a while.
func (s *subscriber) closeLink(l *link) {
	if l.closing != nil {
		l.closing.Stop()
	}
	delete(s.links, l.home)
	if l.home != nil {
		s.Nodes.Forget(l.home)
	}
	s.ended.Go(l.close)
}
