package faults_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// trip is how long a message takes to the server; the reply takes just as long.
const trip = 500 * time.Microsecond

// Like TestFault_CancelMeetsTheGrant, but with a cancel at each instant around the grant. The test runs on fake time, in which only messages to the
// server and back take time.
func TestFault_CancelAtEachInstantAroundTheGrant(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Kinds {
		for grant, try := range grants {
			t.Run(kind.Name+"/"+grant, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { cancelAtEachInstant(t, kind, try) })
			})
		}
	}
}

func cancelAtEachInstant(t *testing.T, kind locktest.Kind, try toGrant) {
	last := 8 * trip
	if kind.Deaf { // its waiters only check now and then
		last = 400 * trip
	}
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	w := &wire{Place: &locktest.Place{Kind: kind, Name: "orders"}, rt: bubbleRuntime(t, server), other: bubbleRuntime(t, server)}
	for range 2 { // the first round connects and loads the scripts; the first turn of a fenced lock has only one token
		lease, err := try(t.Context(), t, w, func() {})
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	}
	step := last / time.Duration(locktest.Scaled(1000, 50))
	cancelled, granted, worst := 0, 0, time.Duration(0)
	for at := time.Duration(0); at <= last; at += step {
		ctx, cancel := context.WithCancel(t.Context())
		lease, err := try(ctx, t, w, func() { time.AfterFunc(at, cancel) })
		if err == nil {
			granted++
			require.True(t, lease.Valid())
			require.Equal(t, "1", server.HGet(w.Name, lease.ID()))
			require.NoError(t, lease.Release(t.Context()))
			require.False(t, server.Exists(w.Name))
		} else {
			cancelled++
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
			worst = max(worst, lastSeen(server, w.Name))
			require.False(t, server.Exists(w.Name))
		}
		cancel()
	}
	t.Logf("the cancel was first %d times, the grant %d times; free %v after a cancel at most", cancelled, granted, worst)
	assert.Positive(t, cancelled)
	assert.Positive(t, granted)
	assert.LessOrEqual(t, worst, 4*trip, "the acquire may still be in flight; its answer and the release follow")
}

// lastSeen watches the key for a while, and returns how long it still existed.
func lastSeen(server *miniredis.Miniredis, key string) (seen time.Duration) {
	for start := time.Now(); time.Since(start) < 10*trip; <-time.After(trip / 20) {
		if server.Exists(key) {
			seen = time.Since(start)
		}
	}
	return seen
}

// bubbleRuntime returns a runtime in a bubble of testing/synctest. Its client has a slow connection to the server.
func bubbleRuntime(t *testing.T, server *miniredis.Miniredis) *holdfast.Runtime {
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", // never resolved: the dialer ignores it
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			conn, err := server.Dial()
			return far(conn), err
		},
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	rt, err := holdfast.New(client, holdfast.Options{Logger: locktest.Quiet(), Handoff: holdfast.Handoff{For: 10 * time.Second}})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, rt.Close(context.Background()))
		_ = client.Close()
		<-time.After(2 * time.Second) // go-redis checks once a second whether it may stop dialing
	})
	return rt
}

// farConn is a connection that is slow from its first script on. Connections for messages stay fast, because go-redis makes them while it holds a
// mutex: in a bubble of testing/synctest, time stands still while a goroutine waits for a mutex.
type farConn struct {
	net.Conn
	isFar  atomic.Bool
	out    chan []byte
	closed chan struct{}
	once   sync.Once
}

func far(conn net.Conn) *farConn {
	c := &farConn{Conn: conn, out: make(chan []byte, 100), closed: make(chan struct{})}
	go c.deliver()
	return c
}

func (c *farConn) deliver() {
	for {
		select {
		case b := <-c.out:
			c.travel()
			_, _ = c.Conn.Write(b)
		case <-c.closed:
			return
		}
	}
}

func (c *farConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("evalsha")) {
		c.isFar.Store(true)
	}
	c.out <- bytes.Clone(b)
	return len(b), nil
}

func (c *farConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.travel()
	return n, err
}

func (c *farConn) travel() {
	if c.isFar.Load() {
		<-time.After(trip)
	}
}

func (c *farConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
