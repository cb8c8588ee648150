package pubsub

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Config is what the subscriber needs from its runtime.
type Config struct {
	Ctx      context.Context // ends when the engine needs no more messages
	Clock    clock.Clock
	Root     *actor.RootContext
	Events   *outbox.Events
	Recorder *trace.Recorder
	Nodes    redisnode.Nodes
	Publish  *redisnode.PublishMode
	Errors   *redisnode.Errors
	Backoff  func(failures int) time.Duration // the pause before the next connection, or before the next attempt to subscribe to a channel
	Demand   string                           // the demand channel, which is never sharded, or ""; its waiters also get the texts of its messages
	// Own returns the name of a channel that only this runtime uses. A link (a connection for messages) subscribes to this channel, and publishes
	// a message to it through the client for commands. If the message has no receiver, the client and the link are connected to different servers,
	// so the link connects again. Own is nil on a cluster, where links do not make this check.
	Own func() (channel string, err error)
}

// New makes the actor.
func New(c Config) *subscriber {
	return &subscriber{Config: c, channels: map[string]*channelState{}, links: map[*redisnode.Node]*link{}}
}

// subscriber passes the messages about releases on to the actors that wait for them. It knows which actor waits on which channel. It has a
// connection for messages only while some actor waits, and for linkRest after that. With sharded channels it has one connection for each
// master, and a channel follows its hash slot.
//
// No wake-up is ever lost. After anything that may have lost a message, the subscription is confirmed again, and the confirmation wakes every
// waiter of the channel. If Redis refuses to subscribe to a channel, the subscriber tries again with back-off. Each channel has its own back-off.
type subscriber struct {
	Config

	// owned by the actor
	channels map[string]*channelState
	links    map[*redisnode.Node]*link // by the master of the link; the key is nil for the link that receives the messages of all masters
	ended    sync.WaitGroup            // links that are closing
	again    clock.Timer               // retries the channels that Redis has refused
	againAt  time.Duration
}

// channelState is a channel that has waiters, or that Redis has refused. A refused channel is kept, even without waiters, until the pause that
// follows the refusal has ended.
type channelState struct {
	name    string
	link    *link // nil if the master is not known yet or Redis has refused to subscribe
	waiting []lease.Actor
	ready   bool // the server has confirmed the subscription

	refusals int           // refusals in a row
	alone    bool          // the next command names only this channel: Redis has rejected the previous command, maybe because of another channel
	retryAt  time.Duration // after a refusal, the instant of the next attempt, or 0 if no attempt is planned
	reported bool          // an event has reported the refusals
}

type (
	// Subscribe subscribes an actor to a channel. Name is the name of the lock that the actor's waiters want; events report it. Messages to an actor
	// that has stopped are dropped.
	Subscribe struct {
		Channel string
		Name    string
		Who     lease.Actor
	}
	// Unsubscribe ends a subscription of an actor.
	Unsubscribe struct {
		Channel string
		Who     lease.Actor
	}
	// FollowSlots subscribes to each channel at the master that has its slot now. It is sent when the masters of a cluster have become known, or may
	// have changed.
	FollowSlots struct{}
	// linkUpdated says that something has happened to channels of a link.
	linkUpdated struct{ link *link }
	// linkTrouble says that the connection of a link has broken or could not be made. The slots of the link's channels may have another master now.
	linkTrouble struct{ link *link }
	// linkDue says that it is time to compare the master of a link with the masters that have the slots of its channels.
	linkDue struct{ link *link }
	// linkIdle says that linkRest has passed since a link lost its last channel.
	linkIdle struct{ link *link }
	// retryChannels says that the pause of a refused channel has ended.
	retryChannels struct{}
	// Stop closes all connections. Done is closed when they have ended.
	Stop struct{ Done chan struct{} }
)

const (
	// linkRest is the time for which a connection stays open after the last waiter has left.
	linkRest = 10 * time.Second
	// refusalsMax is the number of refusals in a row after which the subscriber emits an event. With back-off, these attempts take a second or two.
	// A refusal that a retry would not change (scripts.Rejected) is reported earlier.
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
	case linkUpdated:
		if s.links[m.link.node] == m.link {
			s.onUpdates(c, m.link)
		}
	case linkTrouble:
		s.Nodes.Suspect()
		s.followSlots(c, m.link)
	case linkDue:
		s.followSlots(c, m.link)
	case FollowSlots:
		s.followSlots(c, nil)
	case retryChannels:
		s.retry(c)
	case linkIdle:
		if s.links[m.link.node] == m.link && m.link.channels == 0 {
			s.closeLink(m.link)
		}
	case Stop:
		s.stop(m.Done)
	}
}

// watch adds a waiter. If the channel is subscribed to already, the actor gets a ChannelReady at once, because it may have missed earlier
// messages.
func (s *subscriber) watch(c actor.Context, m Subscribe) {
	state := s.channels[m.Channel]
	if state == nil {
		state = &channelState{name: m.Name}
		s.channels[m.Channel] = state
		s.attach(c, m.Channel, state)
	}
	state.waiting = append(state.waiting, m.Who)
	if state.ready {
		m.Who.Send(wait.ChannelReady{Channel: m.Channel})
	}
}

// unwatch removes a waiter, and drops the channel if no other waiter is left. But a refused channel is kept until its pause has ended. If it were
// dropped, the next waiter would subscribe at once, in spite of the back-off.
func (s *subscriber) unwatch(c actor.Context, m Unsubscribe) {
	state := s.channels[m.Channel]
	if state == nil {
		return
	}
	if i := slices.Index(state.waiting, m.Who); i >= 0 {
		state.waiting = slices.Delete(state.waiting, i, i+1)
	}
	if len(state.waiting) == 0 && state.retryAt == 0 {
		delete(s.channels, m.Channel)
		s.detach(c, m.Channel, state)
	}
}

// server returns the master whose link receives the messages of a channel, or nil if the link for all masters receives them.
func (s *subscriber) server(channel string) (node *redisnode.Node, known bool) {
	if channel == s.Demand {
		return nil, true
	}
	return s.Publish.Server(s.Nodes, channel)
}

// attach chooses the link for a channel and subscribes there. If the master of the channel is not known yet, followSlots subscribes later.
func (s *subscriber) attach(c actor.Context, channel string, state *channelState) {
	node, known := s.server(channel)
	if !known {
		return
	}
	l := s.links[node]
	if l == nil {
		if node != nil {
			node = s.Nodes.Keep(node)
		}
		l = openLink(&s.Config, c.Self(), node)
		s.links[node] = l
	}
	state.link = l
	l.channels++
	l.want(channel, state.alone)
}

func (s *subscriber) detach(c actor.Context, channel string, state *channelState) {
	if state.link == nil {
		return
	}
	state.link.drop(channel)
	s.leave(c, state)
}

// leave takes a channel off its link. A link without channels is closed after linkRest.
func (s *subscriber) leave(c actor.Context, state *channelState) {
	l := state.link
	state.link, state.ready = nil, false
	if l.channels--; l.channels > 0 {
		return
	}
	if l.closing != nil {
		l.closing.Stop()
	}
	root, self := s.Root, c.Self()
	l.closing = s.Clock.AfterFunc(linkRest, func() { root.Send(self, linkIdle{l}) })
}

// followSlots subscribes to the channels whose master was not known before. If the slot of a channel has a new master, followSlots moves the channel
// to the link of that master. The channel's waiters are woken when the new master has confirmed the subscription. If the parameter `of` is not nil,
// followSlots handles only the channels of the link `of`.
func (s *subscriber) followSlots(c actor.Context, of *link) {
	for channel, state := range s.channels {
		if of != nil && state.link != of || state.retryAt > 0 {
			continue
		}
		node, known := s.server(channel)
		if !known || state.link != nil && state.link.node == node {
			continue
		}
		s.detach(c, channel, state)
		s.attach(c, channel, state)
	}
}

// onUpdates passes the updates of a link on to the waiters. If the server confirms a subscription again after a reconnection, or for the first time
// after refusals, messages may have been lost. All waiters of the link's channels might then try at the same time. To let them spread their attempts,
// ChannelReady says how many channels share the connection (Among).
func (s *subscriber) onUpdates(c actor.Context, l *link) {
	again, pauses := 0, map[int]time.Duration{}
	told := l.updates()
	for _, channel := range slices.Sorted(maps.Keys(told)) {
		update, state := told[channel], s.channels[channel]
		if state == nil || state.link != l {
			continue // the channel has been dropped, or has moved to another link
		}
		switch {
		case update.refused != nil:
			state.refusals++
			if pauses[state.refusals] == 0 { // channels that were refused together are retried together
				pauses[state.refusals] = s.Backoff(state.refusals)
			}
			s.onRefused(c, channel, state, update, pauses[state.refusals])
		case update.subscribed:
			ready := wait.ChannelReady{Channel: channel}
			if state.ready || state.refusals > 0 {
				ready.Among = l.channels
				again++
			}
			state.ready, state.refusals, state.alone, state.reported = true, 0, false, false
			state.tell(ready)
			if len(update.texts) > 0 {
				state.tell(wait.ChannelMessage{Channel: channel, Texts: update.texts})
			}
		case state.ready:
			state.tell(wait.ChannelMessage{Channel: channel, Releases: update.messages, Beside: len(state.waiting) - 1, Texts: update.texts})
		}
	}
	if again > 0 {
		s.Recorder.Reconnected()
		s.Events.Emit(protocol.Reconnected{Channels: again})
	}
}

// onRefused schedules the next attempt after a pause. That attempt goes to the master that has the slot by then.
func (s *subscriber) onRefused(c actor.Context, channel string, state *channelState, update channelUpdate, pause time.Duration) {
	s.leave(c, state)
	state.retryAt = s.Clock.Now() + pause
	s.retryBy(c, state.retryAt)
	class := scripts.Classify(update.refused)
	if state.alone = class == scripts.Rejected; !state.alone {
		s.Nodes.Suspect()
	}
	if !state.reported && (class == scripts.Rejected && update.single || state.refusals == refusalsMax) {
		state.reported = true
		s.Events.Emit(protocol.SubscribeRefused{Name: state.name, Channel: channel, Err: s.Errors.ExplainWithHint(update.refused)})
	}
}

// retryBy sets the timer for refused channels, unless it is set for an earlier instant.
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

// retry subscribes again to the refused channels whose pause has ended, and drops those without waiters.
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

// tell sends a message to each waiter, and then moves the first waiter to the end of the list. Send usually runs the receiving actor at once, so the
// first waiter in the list is also the first to try to acquire the lock. If the order never changed, this waiter would nearly always get the lock,
// and the last waiter nearly never.
func (c *channelState) tell(message any) {
	for _, who := range c.waiting {
		who.Send(message)
	}
	if len(c.waiting) > 1 {
		c.waiting = append(c.waiting[1:], c.waiting[0])
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

// closeLink closes a link in the background, because link.close waits for a handshake that is in progress.
func (s *subscriber) closeLink(l *link) {
	if l.closing != nil {
		l.closing.Stop()
	}
	delete(s.links, l.node)
	if l.node != nil {
		s.Nodes.Forget(l.node)
	}
	s.ended.Go(l.close)
}
