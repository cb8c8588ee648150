package pubsub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/scripts"
)

// sent returns the commands in a readable form.
func sent(asks []ask) (commands []string) {
	for _, a := range asks {
		commands = append(commands, fmt.Sprint([]string{"ping", "subscribe", "unsubscribe"}[a.do], a.channels))
	}
	return commands
}

func TestSubscriptions_OneCommandForMany(t *testing.T) {
	t.Parallel()
	s := newSubscriptions(false)
	assert.False(t, s.want("b", false))
	assert.False(t, s.want("a", false))
	assert.Equal(t, []string{"subscribe[a b]"}, sent(s.next()))
	assert.Empty(t, s.next(), "the command is sent once")
	require.NoError(t, s.subscribed("a"))
	require.NoError(t, s.subscribed("b"))
	assert.True(t, s.want("a", false), "the channel is subscribed already")
	s.drop("b")
	assert.Equal(t, []string{"unsubscribe[b]"}, sent(s.next()))
	assert.False(t, s.want("b", false), "the channel is being unsubscribed")
	assert.Empty(t, s.next(), "one command for a channel at a time")
	assert.False(t, s.unsubscribed("b"))
	assert.Equal(t, []string{"subscribe[b]"}, sent(s.next()))

	s.reset()
	assert.Equal(t, []string{"subscribe[a b]"}, sent(s.next()), "the connection is new")
}

func TestSubscriptions_ShardedBySlot(t *testing.T) {
	t.Parallel()
	s := newSubscriptions(true)
	for _, channel := range []string{"{x}1", "{y}1", "{x}2"} {
		s.want(channel, false)
	}
	for _, a := range s.next() {
		for _, channel := range a.channels {
			assert.Equal(t, scripts.Slot(a.channels[0]), scripts.Slot(channel))
		}
	}
	assert.Len(t, s.asked, 2)
}

// Each refusal belongs to the oldest command. The link does not repeat a subscription that was refused.
func TestSubscriptions_Refusals(t *testing.T) {
	t.Parallel()
	s := newSubscriptions(false)
	s.want("a", false)
	s.want("b", false)
	s.next()
	s.want("c", true)
	s.want("d", true)
	assert.Equal(t, []string{"subscribe[c]", "subscribe[d]"}, sent(s.next()))
	a, err := s.refused()
	require.NoError(t, err)
	assert.Equal(t, ask{do: askSubscribe, channels: []string{"a", "b"}}, a)
	a, err = s.refused()
	require.NoError(t, err)
	assert.Equal(t, ask{do: askSubscribe, channels: []string{"c"}, single: true}, a)
	require.NoError(t, s.subscribed("d"))
	assert.Empty(t, s.next())
	assert.Zero(t, s.singles)

	s.drop("d")
	s.next()
	_, err = s.refused()
	require.NoError(t, err)
	assert.Empty(t, s.next(), "not at once")
	s.tick()
	assert.Equal(t, []string{"unsubscribe[d]", "ping[]"}, sent(s.next()))
	assert.False(t, s.unsubscribed("d"))
	require.NoError(t, s.pong())
}

// If a command for many channels is refused, each channel gets a command of its own, but not all at once.
func TestSubscriptions_FewSinglesAtATime(t *testing.T) {
	t.Parallel()
	s := newSubscriptions(false)
	for i := range 5 * singlesMax {
		s.want(fmt.Sprint(i), true)
	}
	for range 5 * singlesMax {
		s.next()
		assert.LessOrEqual(t, len(s.asked), singlesMax)
		require.NoError(t, s.subscribed(s.asked[0].channels[0]))
	}
	assert.Empty(t, s.next())
	assert.Len(t, s.has, 5*singlesMax)
}

// A reply about one channel causes no work for the channels that wait for a command of their own.
func TestSubscriptions_ManySinglesCostNothing(t *testing.T) {
	t.Parallel()
	s := newSubscriptions(false)
	for i := range 50_000 {
		s.want(fmt.Sprint(i), true)
	}
	s.next()
	for range 1000 {
		require.NoError(t, s.subscribed(s.asked[0].channels[0]))
		assert.LessOrEqual(t, len(s.changed), 1)
		s.next()
	}
	s.reset()
	s.next()
	assert.Len(t, s.asked[0].channels, 1000, "channels that were confirmed share a command")
}

// Channels that come and go while there is no connection leave nothing behind.
func TestSubscriptions_ForgetsWhatItNeverAskedFor(t *testing.T) {
	t.Parallel()
	s := newSubscriptions(false)
	for i := range 1000 {
		s.want(fmt.Sprint(i), i%2 == 0)
		s.drop(fmt.Sprint(i))
	}
	assert.Empty(t, s.changed)
	assert.Empty(t, s.next())
}

// A reply for which there was no command shows that replies and commands are out of step. The exception is the end of a subscription: when a slot
// leaves the master, the server ends the subscriptions to the slot's channels without a command.
func TestSubscriptions_Unasked(t *testing.T) {
	t.Parallel()
	s := newSubscriptions(true)
	s.want("a", false)
	require.Error(t, s.subscribed("a"))
	s.next()
	require.Error(t, s.subscribed("b"))
	require.Error(t, s.pong())
	require.NoError(t, s.subscribed("a"))
	_, err := s.refused()
	require.Error(t, err)
	assert.True(t, s.unsubscribed("a"))
	assert.Empty(t, s.next(), "the link does not look for the channel's new master")
}

// Channels are wanted, dropped and refused at random. If each refused channel is wanted again, the server has exactly the wanted channels in the end.
func TestSubscriptions_Random(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		s, server := newSubscriptions(seed%2 == 0), map[string]bool{}
		var wire []ask // commands that the server has not read yet
		wanted := map[string]bool{}
		send := func() {
			for _, a := range s.next() {
				a.channels = slices.Clone(a.channels)
				wire = append(wire, a)
			}
		}
		serve := func(refuse bool) {
			a := wire[0]
			wire = wire[1:]
			switch {
			case refuse:
				refused, err := s.refused()
				require.NoError(t, err)
				require.Equal(t, a, refused)
				for _, channel := range a.channels {
					if wanted[channel] {
						s.want(channel, true)
					}
				}
			case a.do == askPing:
				require.NoError(t, s.pong())
			}
			for _, channel := range a.channels {
				switch {
				case refuse:
				case a.do == askSubscribe:
					server[channel] = true
					require.NoError(t, s.subscribed(channel))
				default:
					delete(server, channel)
					require.False(t, s.unsubscribed(channel))
				}
			}
		}
		for range 500 {
			channel := fmt.Sprint("{", r.IntN(5), "}", r.IntN(3))
			switch r.IntN(10) {
			case 0, 1:
				wanted[channel] = true
				had := s.want(channel, r.IntN(2) == 0)
				require.False(t, had && !server[channel])
			case 2, 3:
				delete(wanted, channel)
				s.drop(channel)
			case 4:
				s.tick()
			case 5:
				if r.IntN(20) == 0 {
					server, wire = map[string]bool{}, nil
					s.reset()
				}
			default:
				send()
				if len(wire) > 0 {
					serve(r.IntN(3) == 0)
				}
			}
		}
		for s.tick(); ; {
			send()
			if len(wire) == 0 {
				break
			}
			serve(false)
		}
		assert.Equal(t, wanted, server, "seed %d", seed)
		assert.Zero(t, s.singles)
	}
}
