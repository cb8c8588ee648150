package actors

import (
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/protocol"
)

// subscriber fans unlock messages out to the lock actors that wait. It owns which actor waits on which channel, and the one
// connection for messages, which exists only while somebody waits and for a while after.
//
// It never loses a wake-up: whatever could have swallowed a message ends in a confirmation that the channel is subscribed to
// (again), and that wakes everybody of the channel.
type subscriber struct {
	// fixed at construction
	engine *Engine

	// owned by the actor
	channels map[string]*channelState
	link     *link
	closing  Timer          // closes an unused link
	links    sync.WaitGroup // those that are closing
}

type channelState struct {
	waiting []*actor.PID
	ready   bool // the server has confirmed the subscription
}

type (
	watchChannel struct {
		channel string
		who     *actor.PID
	}
	unwatchChannel struct {
		channel string
		who     *actor.PID
	}
	// linkNews says that the link has something to tell.
	linkNews struct{ link *link }
	// linkIdle says that the link was unused for linkLinger.
	linkIdle       struct{ link *link }
	stopSubscriber struct{ done chan struct{} }
)

// linkLinger is how long the connection stays open after the last waiter has left.
const linkLinger = 10 * time.Second

// Receive is the actor's only entry.
func (s *subscriber) Receive(c actor.Context) {
	defer s.engine.recoverIn("subscriber")
	switch m := c.Message().(type) {
	case watchChannel:
		s.watch(c, m)
	case unwatchChannel:
		s.unwatch(c, m)
	case linkNews:
		if m.link == s.link {
			s.onNews(c)
		}
	case linkIdle:
		if m.link == s.link && len(s.channels) == 0 {
			s.closeLink()
		}
	case stopSubscriber:
		s.stop(m.done)
	}
}

func (s *subscriber) watch(c actor.Context, m watchChannel) {
	state := s.channels[m.channel]
	if state == nil {
		state = &channelState{}
		s.channels[m.channel] = state
		if s.link == nil {
			s.link = openLink(s.engine, c.Self())
		}
		s.link.want(m.channel, true)
	}
	state.waiting = append(state.waiting, m.who)
	if state.ready {
		c.Send(m.who, channelReady{channel: m.channel})
	}
}

func (s *subscriber) unwatch(c actor.Context, m unwatchChannel) {
	state := s.channels[m.channel]
	if state == nil {
		return
	}
	for i, pid := range state.waiting {
		if pid.Equal(m.who) {
			state.waiting = append(state.waiting[:i], state.waiting[i+1:]...)
			break
		}
	}
	if len(state.waiting) > 0 {
		return
	}
	delete(s.channels, m.channel)
	s.link.want(m.channel, false)
	if len(s.channels) == 0 {
		s.lingerLink(c)
	}
}

func (s *subscriber) lingerLink(c actor.Context) {
	if s.closing != nil {
		s.closing.Stop()
	}
	root, self, idle := s.engine.root, c.Self(), s.link
	s.closing = s.engine.clock.AfterFunc(linkLinger, func() { root.Send(self, linkIdle{idle}) })
}

func (s *subscriber) onNews(c actor.Context) {
	again := 0
	for channel, news := range s.link.news() {
		state := s.channels[channel]
		if state == nil {
			continue // unsubscribed meanwhile
		}
		switch {
		case news.subscribed:
			ready := channelReady{channel: channel}
			if state.ready {
				ready.among = len(s.channels)
				again++
			}
			state.ready = true
			s.tell(c, state, ready)
		case news.dropped:
			state.ready = false
		case news.messages > 0 && state.ready:
			s.tell(c, state, channelMessage{channel, news.messages})
		}
	}
	if again > 0 {
		s.engine.events.emit(protocol.Reconnected{Channels: again})
	}
}

func (s *subscriber) tell(c actor.Context, state *channelState, message any) {
	for _, pid := range state.waiting {
		c.Send(pid, message)
	}
}

func (s *subscriber) stop(done chan struct{}) {
	if s.closing != nil {
		s.closing.Stop()
	}
	s.closeLink()
	go func() {
		s.links.Wait()
		close(done)
	}()
}

// closeLink closes the link in the background: it may take a while.
func (s *subscriber) closeLink() {
	if s.link != nil {
		s.links.Go(s.link.close)
		s.link = nil
	}
}
