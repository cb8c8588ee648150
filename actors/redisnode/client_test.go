package redisnode

import (
	"context"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/embedded"
)

func TestBounded_KeepsTimeoutsThatAreShorter(t *testing.T) {
	t.Parallel()
	const most = 4 * time.Second
	for _, c := range []struct{ read, write, wantRead, wantWrite time.Duration }{
		{0, 0, most, most}, // the default is longer
		{time.Second, 0, time.Second, time.Second},
		{time.Second, time.Second, time.Second, time.Second},
		{time.Second, 2 * time.Second, time.Second, 2 * time.Second},
		{time.Second, time.Minute, time.Second, time.Second},
		{time.Minute, time.Second, most, most},
		{-1, -1, most, most},
		{-2, -2, most, most},
	} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: c.read, WriteTimeout: c.write})
		assert.Equal(t, timeouts{c.wantRead, c.wantWrite}, timeoutsOf(bounded(client, most)), "%v, %v", c.read, c.write)
		assert.NoError(t, client.Close())
	}
}

// seen is a hook that notes the commands.
type seen struct {
	redis.Hook
	names *[]string
}

func (s seen) DialHook(next redis.DialHook) redis.DialHook { return next }
func (s seen) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		*s.names = append(*s.names, command.Name())
		return next(ctx, command)
	}
}
func (s seen) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, command := range commands {
			*s.names = append(*s.names, "pipelined "+command.Name())
		}
		return next(ctx, commands)
	}
}

// The hooks of the user's client see each command of the engine once, whatever timeouts the engine needs. Nothing changes for the user's
// commands.
func TestBounded_KeepsHooks(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	client := server.Client()
	var names []string
	client.AddHook(seen{names: &names})
	for range 3 { // runtimes of one client
		names = nil
		one := bounded(client, time.Second)
		require.NotSame(t, client, one)
		require.NoError(t, one.Process(t.Context(), NewCommand("ping")))
		pipe := one.Pipeline()
		_ = pipe.Process(t.Context(), NewCommand("time"))
		_ = pipe.Process(t.Context(), NewCommand("get", "key"))
		_, err := pipe.Exec(t.Context())
		require.ErrorIs(t, err, redis.Nil)
		require.NoError(t, client.Set(t.Context(), "other", 1, 0).Err())
		names = slices.DeleteFunc(names, func(name string) bool { return name == "hello" || name == "pipelined client" }) // these belong to handshakes
		assert.Equal(t, []string{"ping", "pipelined time", "pipelined get", "set"}, names)
	}
}

// meddling is a hook that calls a function before each pipeline that begins with TIME.
type meddling struct {
	seen
	do func(ctx context.Context)
}

func (m meddling) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if commands[0].Name() == "time" {
			m.do(ctx)
		}
		return next(ctx, commands)
	}
}

// A hook of the user may send its own commands with the context that it gets. Each such command reaches the client to which the hook sends it, and a
// transaction of the hook stays a transaction.
func TestBounded_HooksMaySendCommands(t *testing.T) {
	t.Parallel()
	clients := make([]redis.UniversalClient, 2)
	for i := range clients {
		server, err := embedded.Start()
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, server.Close()) })
		clients[i] = server.Client()
	}
	one, other := clients[0], clients[1]
	called := 0
	one.AddHook(meddling{seen{names: new([]string)}, func(ctx context.Context) {
		called++
		require.NoError(t, other.Set(ctx, "single", 1, 0).Err())
		_, err := other.Pipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "piped", 1, 0).Err() })
		require.NoError(t, err)
		n := redis.NewIntCmd(ctx, "incr", "n")
		_, err = one.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Process(ctx, n) })
		require.NoError(t, err)
		assert.EqualValues(t, called, n.Val())
	}})
	bounded(other, time.Second)
	for range 2 {
		pipe := bounded(one, time.Second).Pipeline()
		_ = pipe.Process(t.Context(), NewCommand("time"))
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
	}
	assert.Equal(t, 2, called)
	assert.EqualValues(t, 2, other.Exists(t.Context(), "single", "piped").Val())
	assert.Zero(t, one.Exists(t.Context(), "single", "piped").Val())
}

// Under the context Connected, go-redis does not call the user's dialer, whatever the timeouts of the client are.
func TestConnected_DoesNotDial(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{100 * time.Millisecond, time.Minute} {
		var dials int
		client := redis.NewClient(&redis.Options{
			ReadTimeout: timeout, WriteTimeout: timeout,
			Dialer: func(context.Context, string, string) (net.Conn, error) { dials++; return nil, net.ErrClosed },
		})
		pubsub := NewNode(client, ReplyWait).Client.Subscribe(t.Context())
		require.ErrorIs(t, pubsub.Ping(Connected), context.Canceled)
		assert.Zero(t, dials)
		require.ErrorIs(t, pubsub.Ping(t.Context()), net.ErrClosed)
		assert.Positive(t, dials)
		require.NoError(t, pubsub.Close())
		require.NoError(t, client.Close())
	}
}

// A closed client is forgotten when nothing refers to it any more.
func TestBounded_ForgetsClients(t *testing.T) {
	known := func() (n int) {
		handsBack.Range(func(any, any) bool { n++; return true })
		return n
	}
	func() {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		bounded(client, time.Second)
		require.Positive(t, known())
		require.NoError(t, client.Close())
	}()
	assert.Eventually(t, func() bool { runtime.GC(); return known() == 0 }, 10*time.Second, 10*time.Millisecond)
}
