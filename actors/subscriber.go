package actors

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/protocol"
)

// subscriber fans unlock messages out to the lock actors that wait. It owns which actor waits on which channel, and the connection
// for messages, which exists only while somebody waits and for a while after. Where messages are told by the master of their channel
// alone, there is one for each master, and a channel follows its slot.
//
// It never loses a wake-up: whatever could have swallowed a message ends in a confirmation that the channel is subscribed to
// (again), and that wakes everybody of the channel.
type subscriber struct {
	// fixed at construction
	engine *Engine

	// owned by the actor
	channels map[string]*channelState
	links    map[*node]*link // by whose messages they bring; nil: everybody's
	ended    sync.WaitGroup  // those that are closing
}

type channelState struct {
	link    *link // nil: it is not known yet who tells its messages
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
	// linkTrouble says that the master of some of its channels may be another now.
	linkTrouble struct{ link *link }
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
		if s.links[m.link.home] == m.link {
			s.onNews(c, m.link)
		}
	case linkTrouble:
		s.engine.masters.suspect()
		s.rehome(c, m.link)
	case learned:
		s.rehome(c, nil)
	case linkIdle:
		if s.links[m.link.home] == m.link && m.link.channels == 0 {
			s.closeLink(m.link)
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
		if home, known := s.engine.teller(m.channel); known {
			s.attach(c, m.channel, state, home)
		}
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
	if len(state.waiting) == 0 {
		delete(s.channels, m.channel)
		s.detach(c, m.channel, state)
	}
}

// attach has a link bring the messages of a channel.
func (s *subscriber) attach(c actor.Context, channel string, state *channelState, home *node) {
	l := s.links[home]
	if l == nil {
		l = openLink(s.engine, c.Self(), home)
		s.links[home] = l
	}
	state.link = l
	l.channels++
	l.want(channel, true)
}

func (s *subscriber) detach(c actor.Context, channel string, state *channelState) {
	l := state.link
	if l == nil {
		return
	}
	state.link, state.ready = nil, false
	l.want(channel, false)
	if l.channels--; l.channels == 0 {
		s.linger(c, l)
	}
}

func (s *subscriber) linger(c actor.Context, idle *link) {
	if idle.closing != nil {
		idle.closing.Stop()
	}
	root, self := s.engine.root, c.Self()
	idle.closing = s.engine.clock.AfterFunc(linkLinger, func() { root.Send(self, linkIdle{idle}) })
}

// rehome looks where the messages of a link's channels come from now. Who moves is woken when it is subscribed there.
func (s *subscriber) rehome(c actor.Context, l *link) {
	for channel, state := range s.channels {
		if state.link != l {
			continue
		}
		if home, known := s.engine.teller(channel); known && (l == nil || home != l.home) {
			s.detach(c, channel, state)
			s.attach(c, channel, state, home)
		}
	}
}

func (s *subscriber) onNews(c actor.Context, l *link) {
	again := 0
	told := l.news()
	for _, channel := range slices.Sorted(maps.Keys(told)) {
		news, state := told[channel], s.channels[channel]
		if state == nil || state.link != l {
			continue // unsubscribed meanwhile
		}
		switch {
		case news.subscribed:
			ready := channelReady{channel: channel}
			if state.ready {
				ready.among = l.channels
				again++
			}
			state.ready = true
			s.tell(c, state, ready)
		case news.dropped:
			state.ready = false
			if l.home != nil { // its slot has left that master
				l.want(channel, true)
				c.Send(c.Self(), linkTrouble{l})
			}
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
	s.ended.Go(l.close)
}
