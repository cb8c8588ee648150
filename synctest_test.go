package holdfast_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// The whole runtime runs inside a synctest bubble: Redis is miniredis over in-memory pipes, and time is the bubble's.

// bubbleServer is a Redis inside the bubble.
type bubbleServer struct{ *miniredis.Miniredis }

func newBubbleServer(t *testing.T) bubbleServer {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	return bubbleServer{server}
}

// cutter makes pipes to the server until it is cut; then those that exist break and no new ones are made.
type cutter struct {
	mu    sync.Mutex
	pipes []net.Conn
	cut   bool
}

func (c *cutter) dial(server bubbleServer) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	}
	pipe, err := server.Dial()
	c.pipes = append(c.pipes, pipe)
	return pipe, err
}

func (c *cutter) now() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for _, pipe := range c.pipes {
		_ = pipe.Close()
	}
}

// bubbleRuntime is a runtime in the bubble with a client of its own.
func bubbleRuntime(t *testing.T, server bubbleServer, c *cutter, options holdfast.Options) *holdfast.Runtime {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                     "127.0.0.1:6379", // never resolved: the dialer ignores it
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return c.dial(server) },
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	rt, err := holdfast.New(client, options)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, rt.Close(context.Background()))
		_ = client.Close()
		<-time.After(2 * time.Second) // go-redis looks once a second whether it may stop dialing
	})
	return rt
}

func TestSynctest_TenMinutesOfRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newBubbleServer(t)
		rt := bubbleRuntime(t, server, &cutter{}, holdfast.Options{})
		other := bubbleRuntime(t, server, &cutter{}, holdfast.Options{})
		lease, err := rt.Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		began := time.Now()
		waiter := other.Lock("orders").AcquireAsync(t.Context())
		for time.Since(began) < 10*time.Minute {
			<-time.After(time.Minute)
			require.True(t, lease.Valid())
			require.Greater(t, server.TTL("orders"), 15*time.Second)
		}
		require.NoError(t, lease.Release(t.Context()))
		freed := time.Now()
		next, err := waiter.Lease()
		require.NoError(t, err)
		assert.Less(t, time.Since(freed), 100*time.Millisecond, "woken by the message, not by the poll")
		require.NoError(t, next.Release(t.Context()))
	})
}

func TestSynctest_CutOffHolderKnowsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newBubbleServer(t)
		var link cutter
		rt := bubbleRuntime(t, server, &link, holdfast.Options{})
		other := bubbleRuntime(t, server, &cutter{}, holdfast.Options{})
		lease, err := rt.Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		work, cancel := lease.Context(t.Context())
		defer cancel()
		waiter := other.Lock("orders").AcquireAsync(t.Context())
		<-time.After(25 * time.Second)
		link.now()
		deadline := lease.ExpiresAt()
		<-lease.Done()
		assert.InDelta(t, 0, time.Until(deadline).Seconds(), 0.001, "told at the deadline")
		require.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
		require.ErrorIs(t, context.Cause(work), holdfast.ErrLeaseLost)
		assert.True(t, server.Exists("orders"), "before the server lets it expire")
		select {
		case <-waiter.Done():
			t.Fatal("granted to another before the holder was told")
		default:
		}
		next, err := waiter.Lease()
		require.NoError(t, err)
		assert.Less(t, time.Since(deadline), 2*time.Second)
		require.NoError(t, next.Release(t.Context()))
	})
}

// An idle runtime sets no timer: in a bubble with nothing else to do, time jumps at once to the one timer that the test has.
func TestSynctest_IdleRuntimeSleeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newBubbleServer(t)
		rt := bubbleRuntime(t, server, &cutter{}, holdfast.Options{})
		lease, err := rt.Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		<-time.After(time.Minute) // long enough to retire the lock's actor
		before := server.CommandCount()
		<-time.After(24 * time.Hour)
		assert.Equal(t, before, server.CommandCount(), "no command in a day")
	})
}
