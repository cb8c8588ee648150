package pubsub

import (
	"errors"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/scripts"
)

// subscriptions compares the channels that a link should be subscribed to with those that it is subscribed to, and decides what to send. It
// does no I/O.
//
// The server replies in the order of the commands, so a refusal belongs to the oldest command without a reply. A channel is in at most one command
// without a reply. If it were in two, the reply to the second command could be taken for the reply to the first.
type subscriptions struct {
	sharded bool
	wanted  map[string]bool // true if the channel gets a command of its own: Redis rejects a whole command if one of its channels is forbidden

	// of the present connection
	has     map[string]bool     // channels whose subscription the server has confirmed
	asking  map[string]bool     // channels in a command without a reply
	changed map[string]struct{} // the channels for which the next call of the method `next` decides what to send
	asked   []ask               // the commands without a reply, the oldest first
	alone   []string            // channels that wait for a command of their own
	waits   map[string]struct{} // the channels in `alone`, as a set
	singles int                 // how many of the commands without a reply were sent with a single channel
	ping    bool                // a ping is due
}

// ask is one command.
type ask struct {
	do       askKind
	channels []string // the channels of the command that have no reply yet
	single   bool     // the command was sent with a single channel
}

type askKind uint8

const (
	askPing askKind = iota
	askSubscribe
	askUnsubscribe
)

const (
	channelsMax = 1000 // channels in a command
	singlesMax  = 100  // at most this many commands with a single channel are in flight; further channels wait for a command of their own
)

var errUnasked = errors.New("the server replied to nothing that it was asked")

func newSubscriptions(sharded bool) subscriptions {
	s := subscriptions{sharded: sharded, wanted: map[string]bool{}}
	s.reset()
	return s
}

// reset starts over on a new connection, where nothing is subscribed to.
func (s *subscriptions) reset() {
	s.has, s.asking, s.changed = map[string]bool{}, map[string]bool{}, map[string]struct{}{}
	s.asked, s.alone, s.waits, s.singles, s.ping = nil, nil, map[string]struct{}{}, 0, false
	for channel := range s.wanted {
		s.changed[channel] = struct{}{}
	}
}

// want subscribes to a channel. It reports whether the link is subscribed to it already.
func (s *subscriptions) want(channel string, single bool) bool {
	s.wanted[channel] = single
	s.changed[channel] = struct{}{}
	return s.has[channel] && !s.asking[channel]
}

// drop ends the subscription to a channel.
func (s *subscriptions) drop(channel string) {
	delete(s.wanted, channel)
	if s.has[channel] || s.asking[channel] {
		s.changed[channel] = struct{}{}
	} else {
		delete(s.changed, channel)
	}
}

// tick is called when nothing has arrived for a while. The following call of next then sends a ping, and repeats each unsubscription that
// Redis has refused.
func (s *subscriptions) tick() {
	s.ping = true
	for channel := range s.has {
		s.changed[channel] = struct{}{}
	}
}

// next returns the commands to send now.
func (s *subscriptions) next() (send []ask) {
	var on, off []string
	for _, channel := range slices.Sorted(maps.Keys(s.changed)) {
		single, wanted := s.wanted[channel]
		switch {
		case s.asking[channel] || wanted == s.has[channel]: // send nothing: an earlier command has no reply yet, or there is nothing to change
		case !wanted:
			off = append(off, channel)
		case !single:
			on = append(on, channel)
		default:
			s.wait(channel)
		}
		delete(s.changed, channel)
	}
	send = slices.Concat(s.bundles(askUnsubscribe, off), s.bundles(askSubscribe, on), s.admit())
	if s.ping {
		s.ping = false
		send = append(send, ask{do: askPing})
	}
	for i := range send {
		s.expect(&send[i])
	}
	return send
}

// wait queues a channel for a command of its own.
func (s *subscriptions) wait(channel string) {
	if _, waits := s.waits[channel]; !waits {
		s.waits[channel] = struct{}{}
		s.alone = append(s.alone, channel)
	}
}

// admit returns further commands with a single channel, as many as singlesMax allows.
func (s *subscriptions) admit() (send []ask) {
	for len(s.alone) > 0 && s.singles+len(send) < singlesMax {
		channel := s.alone[0]
		s.alone = s.alone[1:]
		delete(s.waits, channel)
		if _, wanted := s.wanted[channel]; wanted && !s.has[channel] && !s.asking[channel] {
			send = append(send, ask{do: askSubscribe, channels: []string{channel}})
		}
	}
	return send
}

// expect notes a command whose reply will come.
func (s *subscriptions) expect(a *ask) {
	if a.single = len(a.channels) == 1; a.single {
		s.singles++
	}
	for _, channel := range a.channels {
		s.asking[channel] = true
	}
	s.asked = append(s.asked, *a)
}

// bundles distributes channels over few commands. A command must not name sharded channels of two slots.
func (s *subscriptions) bundles(do askKind, channels []string) (asks []ask) {
	slots := map[uint16][]string{}
	for _, channel := range channels {
		slot := uint16(0)
		if s.sharded {
			slot = scripts.Slot(channel)
		}
		slots[slot] = append(slots[slot], channel)
	}
	for _, slot := range slices.Sorted(maps.Keys(slots)) {
		for together := range slices.Chunk(slots[slot], channelsMax) {
			asks = append(asks, ask{do: do, channels: together})
		}
	}
	return asks
}

// subscribed notes that the server has confirmed a subscription.
func (s *subscriptions) subscribed(channel string) error {
	if !s.replied(askSubscribe, channel) {
		return errUnasked
	}
	s.has[channel] = true
	if _, wanted := s.wanted[channel]; wanted {
		s.wanted[channel] = false // on the next connection, the channel shares a command again
	}
	return nil
}

// unsubscribed notes that the server has ended a subscription. It returns true if the link still wants the channel and has not unsubscribed from it.
// In that case, the server has ended the subscription because the slot of the channel has left this master.
func (s *subscriptions) unsubscribed(channel string) (lost bool) {
	asked := s.replied(askUnsubscribe, channel)
	delete(s.has, channel)
	_, wanted := s.wanted[channel]
	if lost = wanted && !asked; lost {
		delete(s.wanted, channel)
	}
	return lost
}

// replied handles a reply about a channel. If this is the next reply that the oldest command expects, replied removes the channel from that command
// and returns true. If not, it returns false.
func (s *subscriptions) replied(do askKind, channel string) bool {
	if len(s.asked) == 0 || s.asked[0].do != do || s.asked[0].channels[0] != channel {
		return false
	}
	oldest := &s.asked[0]
	oldest.channels = oldest.channels[1:]
	s.done(channel)
	if len(oldest.channels) == 0 {
		s.pop()
	}
	return true
}

// pong notes the reply to a ping.
func (s *subscriptions) pong() error {
	if len(s.asked) == 0 || s.asked[0].do != askPing {
		return errUnasked
	}
	s.pop()
	return nil
}

// refused notes that the server has replied to the oldest command with an error. If the command was to subscribe, its channels are no longer wanted
// here; the subscriber tries again later. If the command was to unsubscribe, the link stays subscribed to the channels of the command, and
// unsubscribes again after the next call of tick.
func (s *subscriptions) refused() (ask, error) {
	if len(s.asked) == 0 {
		return ask{}, errUnasked
	}
	a := s.asked[0]
	for _, channel := range a.channels {
		s.done(channel)
		if a.do == askSubscribe {
			delete(s.wanted, channel)
		} else {
			delete(s.changed, channel)
		}
	}
	s.pop()
	return a, nil
}

func (s *subscriptions) done(channel string) {
	delete(s.asking, channel)
	s.changed[channel] = struct{}{}
}

func (s *subscriptions) pop() {
	if s.asked[0].single {
		s.singles--
	}
	s.asked = s.asked[1:]
}
