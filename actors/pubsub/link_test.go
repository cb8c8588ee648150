package pubsub

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// standstill is an actor that collects messages and does nothing else.
type standstill struct{ messages []any }

func (s *standstill) SendUserMessage(_ *actor.PID, message any) {
	s.messages = append(s.messages, message)
}
func (s *standstill) SendSystemMessage(*actor.PID, any) {}
func (s *standstill) Send(message any)                  { s.messages = append(s.messages, message) }
func (s *standstill) Stop(*actor.PID)                   {}

// If the subscriber does not read the updates, a flood of messages causes only one message to the subscriber, and one entry per channel in the link.
// No message is lost.
func TestLink_FloodIsOneMessage(t *testing.T) {
	const flood, channels = 1_000_000, 100
	system, owner := actor.NewActorSystem(), &standstill{}
	defer system.Shutdown()
	pid, _ := system.ProcessRegistry.Add(owner, "owner")
	l := &link{config: &Config{Root: system.Root}, owner: pid, told: map[string]channelUpdate{}}
	var messages [channels]*redis.Message
	for i := range messages {
		messages[i] = &redis.Message{Channel: fmt.Sprintf("channel %d", i)}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range flood {
		require.NoError(t, l.take(messages[i%channels]))
	}
	runtime.ReadMemStats(&after)

	assert.Equal(t, []any{linkUpdated{l}}, owner.messages)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "bytes allocated")
	updates := l.updates()
	assert.Len(t, updates, channels)
	for channel, n := range updates {
		assert.Equal(t, channelUpdate{messages: flood / channels}, n, channel)
	}
	require.NoError(t, l.take(messages[0]))
	assert.Len(t, owner.messages, 2, "the next message is announced to the subscriber again")
}

// A demand and the confirmation of its channel may both arrive, in either order, before the subscriber reads the updates. The subscriber must pass
// the demand on nevertheless: the next demand would arrive only a second later.
func TestSubscriber_DemandBesideAConfirmation(t *testing.T) {
	demand := &redis.Message{Channel: "demand", Payload: "g1 orders"}
	confirmation := &redis.Subscription{Kind: "subscribe", Channel: "demand"}
	for _, order := range [][]any{{demand, confirmation}, {confirmation, demand}} {
		system, who := actor.NewActorSystem(), &standstill{}
		defer system.Shutdown()
		s := New(Config{Root: system.Root, Demand: "demand"})
		l := &link{config: &s.Config, owner: actor.NewPID("", "nobody"), told: map[string]channelUpdate{}, subs: newSubscriptions(false)}
		s.channels["demand"] = &channelState{link: l, waiting: []lease.Actor{who}}
		l.subs.want("demand", false)
		require.NotEmpty(t, l.subs.next())
		for _, message := range order {
			require.NoError(t, l.take(message))
		}
		s.onUpdates(nil, l)
		assert.Equal(t, []any{
			wait.ChannelReady{Channel: "demand"},
			wait.ChannelMessage{Channel: "demand", Texts: map[string]struct{}{"g1 orders": {}}},
		}, who.messages)
	}
}

// The actors of a channel get its messages first in turn: the first one is nearly always also the first to try for the lock.
func TestSubscriber_EachIsFirstInTurn(t *testing.T) {
	system := actor.NewActorSystem()
	defer system.Shutdown()
	s, order := New(Config{Root: system.Root}), ""
	l := &link{config: &s.Config, owner: actor.NewPID("", "nobody"), told: map[string]channelUpdate{}}
	state := &channelState{link: l, ready: true}
	for _, name := range []string{"a", "b", "c"} {
		state.waiting = append(state.waiting, &caller{call: func(message any) {
			assert.Equal(t, wait.ChannelMessage{Channel: "channel", Releases: 1, Beside: 2}, message)
			order += name
		}})
	}
	s.channels["channel"] = state
	for range 4 {
		require.NoError(t, l.take(&redis.Message{Channel: "channel"}))
		s.onUpdates(nil, l)
	}
	assert.Equal(t, "abcbcacababc", order)
}

// caller is an actor that passes each message to a function.
type caller struct {
	standstill
	call func(message any)
}

func (c *caller) Send(message any) { c.call(message) }

// If a server answers the handshake and the first ping, and nothing after that, the link keeps the connection for deadAfter. Then it makes the next
// one, whatever the client's timeouts are.
func TestLink_SilentConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		client := redis.NewClient(&redis.Options{
			Addr:        "127.0.0.1:6379", // no host name: a look-up would use Go channels of package net that belong to another test's bubble
			ReadTimeout: -1, WriteTimeout: -1, PoolSize: 1, MaxRetries: -1,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				dials.Add(1)
				ours, servers := net.Pipe()
				go answerOnePing(servers)
				return ours, nil
			},
		})
		defer client.Close()
		system := actor.NewActorSystem()
		defer system.Shutdown()
		pid, _ := system.ProcessRegistry.Add(&standstill{}, "owner")
		const backoff = time.Second
		l := openLink(&Config{
			Ctx: t.Context(), Clock: clock.NewSystem(), Root: system.Root, Nodes: oneNode{node: &redisnode.Node{Client: client}},
			Backoff: func(int) time.Duration { return backoff },
		}, pid, nil)
		defer l.close()
		l.want("channel", false)

		<-time.After(deadAfter - time.Millisecond) // on the clock of the bubble
		synctest.Wait()
		assert.EqualValues(t, 1, dials.Load(), "a server without messages would be silent, too")
		<-time.After(pingAfter + backoff) // on the clock of the bubble
		synctest.Wait()
		assert.EqualValues(t, 2, dials.Load(), "a server without messages would have answered the ping")
	})
}

// oneNode has the same node for every connection.
type oneNode struct {
	redisnode.Nodes
	node *redisnode.Node
}

func (n oneNode) Any(int) *redisnode.Node                 { return n.node }
func (oneNode) Keep(node *redisnode.Node) *redisnode.Node { return node }
func (oneNode) Forget(*redisnode.Node)                    {}

// answerOnePing is a server that knows no command but PING. After the first PING it only reads, and never answers.
func answerOnePing(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		name, err := readCommand(in)
		if err != nil {
			return
		}
		if strings.EqualFold(name, "ping") {
			go io.WriteString(conn, "+PONG\r\n") //nolint:errcheck // see below
			_, _ = io.Copy(io.Discard, in)
			return
		}
		// The reply is written on a goroutine: a pipe has no buffer, and go-redis may write more commands before it reads.
		go io.WriteString(conn, "-ERR unknown command\r\n") //nolint:errcheck // the reader continues
	}
}

// readCommand reads a command and returns its first word.
func readCommand(in *bufio.Reader) (name string, err error) {
	var words, length int
	if _, err = fmt.Fscanf(in, "*%d\r\n", &words); err != nil {
		return "", err
	}
	for i := range words {
		if _, err = fmt.Fscanf(in, "$%d\r\n", &length); err != nil {
			return "", err
		}
		word := make([]byte, length+len("\r\n"))
		if _, err = io.ReadFull(in, word); err != nil {
			return "", err
		}
		if i == 0 {
			name = string(word[:length])
		}
	}
	return name, nil
}
