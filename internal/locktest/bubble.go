package locktest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// Bubble is a Redis inside a bubble of testing/synctest: miniredis over in-memory pipes, and time is the bubble's.
type Bubble struct{ *miniredis.Miniredis }

// NewBubble starts the server of a bubble. It ends with the test.
func NewBubble(t *testing.T) Bubble {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	return Bubble{server}
}

// Pipes are the connections of one client to the server of a bubble.
type Pipes struct {
	mu   sync.Mutex
	open []net.Conn
	cut  bool
}

// Cut breaks the pipes and allows no new ones.
func (p *Pipes) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for _, pipe := range p.open {
		_ = pipe.Close()
	}
	p.open = nil
}

// Heal allows new pipes.
func (p *Pipes) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

func (p *Pipes) dial(b Bubble) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	}
	pipe, err := b.Dial()
	p.open = append(p.open, pipe)
	return pipe, err
}

// Runtime is a runtime in the bubble with a client of its own. Both end with the test.
func (b Bubble) Runtime(t *testing.T, pipes *Pipes, options holdfast.Options, hooks ...redis.Hook) *holdfast.Runtime {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                     "127.0.0.1:6379", // never resolved: the dialer ignores it
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return pipes.dial(b) },
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	for _, hook := range hooks {
		client.AddHook(hook)
	}
	if options.Logger == nil {
		options.Logger = Quiet()
	}
	rt, err := holdfast.New(client, options)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, rt.Close(context.Background()))
		_ = client.Close()
		<-time.After(2 * time.Second) // go-redis looks once a second whether it may stop dialing
	})
	return rt
}
