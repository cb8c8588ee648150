package faults_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// snapping dials connections. The first connection over which the command is sent breaks, and the next dial panics.
type snapping struct {
	command string
	unsent  bool        // the connection breaks before the command is sent, not after
	snapped atomic.Bool // a connection has broken
	dialed  atomic.Bool // the dial after the break has panicked
}

func (s *snapping) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if s.snapped.Load() && !s.dialed.Swap(true) {
		panic("of the dialer")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &snappingConn{Conn: conn, by: s}, err
}

type snappingConn struct {
	net.Conn
	by     *snapping
	broken atomic.Bool
}

func (c *snappingConn) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "\r\n"+c.by.command+"\r\n") && !c.by.snapped.Swap(true) {
		c.broken.Store(true)
		if c.by.unsent {
			return 0, io.ErrClosedPipe
		}
	}
	return c.Conn.Write(b)
}

func (c *snappingConn) Read(b []byte) (int, error) {
	if c.broken.Load() {
		return 0, io.EOF
	}
	return c.Conn.Read(b)
}

// When a connection with subscriptions breaks, go-redis connects again, and calls functions of the user, such as the dialer. Even if such a function
// panics, Check continues: the panic does not end the process, and Check does not wait for the mutex that go-redis may leave locked.
func TestFault_DialerThatPanicsWhenCheckSubscribes(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	for name, snaps := range map[string]*snapping{
		"subscribed":       {command: "subscribe"},
		"not subscribed":   {command: "subscribe", unsent: true},
		"unsubscribed":     {command: "unsubscribe"},
		"not unsubscribed": {command: "unsubscribe", unsent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := locktest.NewRuntime(t, locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Dialer: snaps.dial}), holdfast.Options{})
			assert.NoError(t, rt.Check(t.Context()))
			assert.True(t, snaps.dialed.Load())
		})
	}
}

// The connection for the messages of releases breaks, and the dialer panics when go-redis dials again. The connection recovers all the same.
func TestFault_DialerThatPanicsWhenAWaiterSubscribes(t *testing.T) {
	t.Parallel()
	for name, snaps := range map[string]*snapping{
		"subscribed":     {command: "subscribe"},
		"not subscribed": {command: "subscribe", unsent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := locktest.OwnPlaceOf(t, "lock")
			rt := locktest.NewRuntime(t, locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Dialer: snaps.dial}), holdfast.Options{})
			held := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
			pending := p.Lock(rt).AcquireAsync(t.Context())
			locktest.Await(t, "the panic", snaps.dialed.Load)
			p.WaitForWaiter(t, rt)
			locktest.Release(t, held)
			locktest.Release(t, locktest.Granted(t, pending))
		})
	}
}

// dialing is a hook that calls a function before each dial.
type dialing struct {
	renaming
	before func()
}

func (d dialing) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d.before()
		return next(ctx, network, addr)
	}
}

// When a connection breaks, go-redis calls the user's dial hook under a mutex. If the hook panics, the mutex stays locked. Messages then come over
// another connection, and Close returns.
func TestFault_HookThatDoesNotReturnWhenAWaiterConnectsAgain(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){"panics": func() { panic("of the hook") }, "ends its goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := locktest.OwnPlaceOf(t, "lock")
			client, proxy := p.ProxiedClient(t)
			var armed atomic.Bool
			var left atomic.Int32
			client.AddHook(dialing{strings.Clone, func() {
				if armed.Load() {
					left.Add(1)
					leave()
				}
			}})
			rt := locktest.NewRuntime(t, client, holdfast.Options{Logger: locktest.Quiet()})
			held := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
			pending := p.Lock(rt).AcquireAsync(t.Context())
			p.WaitForWaiter(t, rt)
			armed.Store(true)
			proxy.Cut()
			locktest.Await(t, "three attempts to connect", func() bool { return left.Load() >= 3 })
			armed.Store(false)
			p.WaitForListener(t)
			locktest.Release(t, held)
			locktest.Release(t, locktest.Granted(t, pending))
			require.NoError(t, rt.Close(t.Context()))
		})
	}
}
