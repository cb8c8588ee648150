package locktest

import (
	"bytes"
	"context"
	"net"
	"os"
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
	if err != nil {
		return nil, err
	}
	p.open = append(p.open, pipe)
	return drain(pipe), nil
}

// drained is a pipe that the server can always write to, as it can to a socket. Else it waits for the client to read, with a mutex
// locked, and somebody who waits for a mutex stops a bubble's time.
type drained struct {
	net.Conn
	news chan struct{} // something below has changed

	mu       sync.Mutex
	arrived  bytes.Buffer
	err      error // of the pipe
	deadline time.Time
}

func drain(pipe net.Conn) *drained {
	d := &drained{Conn: pipe, news: make(chan struct{}, 1)}
	go func() {
		buffer := make([]byte, 4096)
		for d.err == nil {
			n, err := pipe.Read(buffer)
			d.change(func() { d.arrived.Write(buffer[:n]); d.err = err })
		}
	}()
	return d
}

func (d *drained) change(how func()) {
	d.mu.Lock()
	how()
	d.mu.Unlock()
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// Read returns what has arrived; there is one reader at a time.
func (d *drained) Read(into []byte) (int, error) {
	for {
		d.mu.Lock()
		n, _ := d.arrived.Read(into)
		err, deadline := d.err, d.deadline
		d.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		var late <-chan time.Time
		if !deadline.IsZero() {
			late = time.After(time.Until(deadline))
		}
		select {
		case <-d.news:
		case <-late:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (d *drained) SetReadDeadline(t time.Time) error {
	d.change(func() { d.deadline = t })
	return nil
}

func (d *drained) SetDeadline(t time.Time) error {
	_ = d.SetReadDeadline(t)
	return d.SetWriteDeadline(t)
}

// Runtime is a runtime in the bubble with a client of its own. Both end with the test.
func (b Bubble) Runtime(t *testing.T, pipes *Pipes, options holdfast.Options, hooks ...redis.Hook) *holdfast.Runtime {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                     "127.0.0.1:6379", // never resolved: the dialer ignores it
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return pipes.dial(b) },
		DialerRetries:            1, // it pauses in between with a mutex locked, which stops the bubble's time
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
		if err := rt.Close(context.Background()); !GaveUp(err) { // the link may be cut
			assert.NoError(t, err)
		}
		_ = client.Close()
		<-time.After(2 * time.Second) // go-redis looks once a second whether it may stop dialing
	})
	return rt
}
