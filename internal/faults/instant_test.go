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
	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// trip is how long a message takes to the server; the reply takes just as long.
const trip = 500 * time.Microsecond

// This test does what TestFault_CancelMeetsTheGrant does, with a cancel at each instant around the grant. The test runs on fake time, in which only
// messages to the server and back take time.
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

// If Redis is silent, a cancelled acquire may return late. A goroutine that sends its own call does not notice the cancellation before the call
// returns, half a second after it was sent. Later in the outage, workers send the calls, and a cancelled acquire returns at once. A deadline of the
// context always ends the wait on time.
func TestFault_CancelWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	const quick = 100 * time.Millisecond
	contexts := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(quick, cancel)
			return ctx, cancel
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, quick)
		},
	}
	for what, within := range map[string]time.Duration{"cancelled": 510 * time.Millisecond, "deadline": quick + trip} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, silent := miniredis.NewMiniRedis(), new(atomic.Bool)
				t.Cleanup(server.Close)
				rt := bubbleRuntimeOver(t, server, silent)
				t.Cleanup(func() { silent.Store(false) }) // runs before the Close of the runtime
				lock := rt.Lock("orders")
				require.NoError(t, lock.Do(t.Context(), func(context.Context) error { return nil }))
				silent.Store(true)
				for _, limit := range []time.Duration{within, quick + trip} {
					ctx, cancel := contexts[what](t.Context())
					asked := time.Now()
					_, err := lock.Acquire(ctx)
					assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
					assert.ErrorIs(t, err, ctx.Err())
					assert.GreaterOrEqual(t, time.Since(asked), quick)
					assert.LessOrEqual(t, time.Since(asked), limit)
					cancel()
				}
			})
		})
	}
}

// While Redis is silent, an acquire still ends after the time set by WithWait. The first call of a new runtime is
// sent by a worker, which leaves the caller's goroutine free. So if this call is that of an acquire, and the acquire is cancelled, it ends at once.
func TestFault_WaitWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const wait = 1100 * time.Millisecond
		server, silent := miniredis.NewMiniRedis(), new(atomic.Bool)
		t.Cleanup(server.Close)
		rt := bubbleRuntimeOver(t, server, silent)
		defer silent.Store(false) // before the runtimes are closed
		require.NoError(t, rt.Lock("orders").Do(t.Context(), func(context.Context) error { return nil }))
		silent.Store(true)
		began := time.Now()
		_, err := rt.Lock("orders").Acquire(t.Context(), holdfast.WithWait(wait))
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.LessOrEqual(t, time.Since(began), wait+trip)

		young := bubbleRuntimeOver(t, server, silent)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		began = time.Now()
		_, err = young.Lock("orders").Acquire(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		assert.LessOrEqual(t, time.Since(began), 100*time.Millisecond+trip)
	})
}

// lateClock is a clock that the test can put forward. This simulates a suspension of the machine: afterwards, timers fire late by this clock.
type lateClock struct {
	clock.System
	ahead *atomic.Int64
}

func (c lateClock) Now() time.Duration { return c.System.Now() + time.Duration(c.ahead.Load()) }

// A grant has expired by its process's clock, but Redis still has it. The process releases the grant before its next attempt, which succeeds.
func TestFault_AcquireJustAfterAnOwnLeaseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true)
		t.Cleanup(server.Close)
		ahead, attempts := new(atomic.Int64), 0
		rt := bubbleRuntimeWith(t, server, new(atomic.Bool), holdfast.Options{
			System: locktest.SystemWith(t, &actors.Seams{Clock: lateClock{clock.NewSystem(), ahead}}),
			Trace: &holdfast.Trace{Acquiring: func(context.Context, holdfast.Acquiring) func(holdfast.Acquired) {
				return func(a holdfast.Acquired) { attempts = a.Attempts }
			}},
		})
		require.NoError(t, rt.Lock("orders").Do(t.Context(), func(context.Context) error { return nil })) // loads the scripts
		lease, err := rt.Lock("orders").Acquire(t.Context(), holdfast.WithLease(30*time.Second))
		require.NoError(t, err)
		ahead.Store(int64(time.Until(lease.ExpiresAt()) + 50*time.Millisecond))
		next, err := rt.Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, attempts)
		require.NoError(t, next.Release(t.Context()))
	})
}

func cancelAtEachInstant(t *testing.T, kind locktest.Kind, try toGrant) {
	last := 8 * trip
	if kind.Deaf { // the spin lock, whose waiters only check now and then
		last = 400 * trip
	}
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	w := &wire{Place: &locktest.Place{Kind: kind, Name: "orders"}, rt: bubbleRuntime(t, server), other: bubbleRuntime(t, server)}
	for range 2 { // the first round connects, loads the scripts, and ends the first turn, in which a fenced lock has only one token
		lease, err := try(t.Context(), t, w, func() {})
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	}
	step := last / time.Duration(locktest.Scaled(1000, 50))
	cancelled, granted, worst := 0, 0, time.Duration(0)
	for at := time.Duration(0); at <= last; at += step {
		ctx, cancel := context.WithTimeout(t.Context(), 450*time.Millisecond) // with a deadline so near, a worker sends the call
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

// lastSeen watches the key for a while. It returns how long after the start the key was last seen.
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
	return bubbleRuntimeOver(t, server, new(atomic.Bool))
}

// bubbleRuntimeOver makes a runtime. While `silent` is set, whatever is sent over its connections is lost.
func bubbleRuntimeOver(t *testing.T, server *miniredis.Miniredis, silent *atomic.Bool) *holdfast.Runtime {
	return bubbleRuntimeWith(t, server, silent, holdfast.Options{})
}

func bubbleRuntimeWith(t *testing.T, server *miniredis.Miniredis, silent *atomic.Bool, options holdfast.Options) *holdfast.Runtime {
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", // never resolved: the dialer ignores it
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			conn, err := server.Dial()
			return far(conn, silent), err
		},
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	options.Logger, options.Handoff = locktest.Quiet(), holdfast.Handoff{For: 10 * time.Second}
	rt, err := holdfast.New(client, options)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, rt.Close(context.Background()))
		_ = client.Close()
		<-time.After(2 * time.Second) // go-redis checks once a second whether it may stop dialing
	})
	return rt
}

// farConn is a connection that becomes slow when its first script is sent. A connection for messages carries no scripts, so it stays fast. It has to
// stay fast, because go-redis opens such a connection under a mutex: in a bubble of testing/synctest, time stands still as long as any goroutine
// waits for a mutex.
type farConn struct {
	net.Conn
	isFar  atomic.Bool
	silent *atomic.Bool // what is sent is lost
	out    chan []byte
	closed chan struct{}
	once   sync.Once
}

func far(conn net.Conn, silent *atomic.Bool) *farConn {
	c := &farConn{Conn: conn, silent: silent, out: make(chan []byte, 100), closed: make(chan struct{})}
	go c.deliver()
	return c
}

func (c *farConn) deliver() {
	for {
		select {
		case b := <-c.out:
			c.travel()
			if !c.silent.Load() {
				_, _ = c.Conn.Write(b)
			}
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
