package promises_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestPromise_CloseLeavesNothing(t *testing.T) {
	t.Parallel()
	for way, show := range map[string]func(t *testing.T, p *locktest.Place){
		"much in use":             showBusyClose,
		"server away":             showCloseWithoutServer,
		"link away for a while":   showCloseOverOutage,
		"link broken meanwhile":   showCloseOverCut,
		"while everything starts": showCloseInTheMiddle,
		"context ended before":    showCloseWithEndedContext,
		"server away for good":    showCloseOfNoServer,
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			locktest.OnOwnServer(t, show)
		})
	}
}

func showBusyClose(t *testing.T, p *locktest.Place) {
	const held = 100
	waiters := 10_000
	if p.Kind.Queued { // all waiters are in Redis' queue, and a long queue makes each call slow
		waiters = 500
	}
	client := p.Client(t)
	require.NoError(t, client.Ping(t.Context()).Err())
	taken := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{}))) // held elsewhere, so that waiters subscribe
	left := locktest.GoroutinesLeft(t, func() {
		rt := locktest.NewRuntime(t, client, holdfast.Options{})
		leases := make([]*holdfast.Lease, held)
		pending := make([]*holdfast.Pending, waiters)
		for i := range leases {
			leases[i] = locktest.Acquire(t, p.Kind.Lock(rt, p.Name+strconv.Itoa(i)))
		}
		for i := range pending {
			name := p.Name
			if i%2 == 0 {
				name += strconv.Itoa(i % held)
			}
			pending[i] = p.Kind.Lock(rt, name).AcquireAsync(t.Context())
		}
		p.WaitForWaiter(t, rt)
		assert.Greater(t, locktest.Goroutines(t), held/10, "goroutines are counted")

		require.NoError(t, rt.Close(t.Context()))

		for _, waiting := range pending {
			_, err := waiting.Lease()
			require.ErrorIs(t, err, holdfast.ErrClosed)
		}
		for _, lease := range leases {
			locktest.Closed(t, "Done", lease.Done())
			require.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
			require.False(t, lease.Valid())
			require.NoError(t, lease.Release(t.Context()), "a late release returns no error")
		}
		assert.Len(t, p.Keys(t), 1, "only the other runtime's key is left")
		assert.Empty(t, p.Redis.PubSubChannels(t.Context(), "*").Val())
		assert.Zero(t, client.PoolStats().PubSubStats.Active, "the connection for messages is closed")
		assert.Equal(t, !p.Kind.Deaf, client.PoolStats().PubSubStats.Created > 0, "there was one, unless waiters do not subscribe")
		_, err := p.Lock(rt).Acquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		assert.NoError(t, rt.Close(t.Context()), "a second Close")
	})
	assert.Equal(t, 1, left, "goroutines, the test's own among them")
	locktest.Release(t, taken)
}

// showCloseWithEndedContext calls Close with a context that has already ended. A service does that if it passes the context of
// signal.NotifyContext to Close when it stops.
func showCloseWithEndedContext(t *testing.T, p *locktest.Place) {
	rt := p.Runtime(t, holdfast.Options{})
	var leases []*holdfast.Lease
	for range 10 {
		leases = append(leases, locktest.Acquire(t, p.Another(t).Lock(rt)))
	}
	leases = append(leases, locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(time.Minute)))
	waiting := p.Lock(rt).AcquireAsync(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	require.NoError(t, rt.Close(ctx))

	for _, lease := range leases {
		require.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
	}
	_, err := waiting.Lease()
	require.ErrorIs(t, err, holdfast.ErrClosed)
	assert.Empty(t, p.Keys(t))
	for range 20 {
		require.NoError(t, rt.Close(ctx), "of a closed runtime")
	}
}

func showCloseWithoutServer(t *testing.T, p *locktest.Place) {
	rt := p.Runtime(t, holdfast.Options{})
	lease := locktest.Acquire(t, p.Lock(rt))
	waiting := p.Lock(rt).AcquireAsync(t.Context())
	p.Server.Pause()

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	patient := make(chan error, 1)
	go func() { patient <- rt.Close(context.Background()) }()
	start := time.Now()
	err := rt.Close(ctx)
	took := time.Since(start)

	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, took, 2*time.Second, "Close does not wait for the server")
	locktest.Closed(t, "Done", lease.Done())
	assert.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
	_, err = waiting.Lease()
	assert.ErrorIs(t, err, holdfast.ErrClosed)
	assert.NoError(t, lease.Release(t.Context()))
	p.Server.Resume()
	assert.ErrorContains(t, <-patient, "what is still held expires", "nil would say that everything is released")
	assert.ErrorContains(t, rt.Close(t.Context()), "the context of another call ended", "a later call waits for the end, and does not hide it")
}

// showCloseOfNoServer pauses Redis and calls Close with a context that never ends. Redis stays paused until Close has returned.
func showCloseOfNoServer(t *testing.T, p *locktest.Place) {
	const lease = 3 * time.Second
	rt, err := holdfast.New(p.Client(t), holdfast.Options{Lease: lease, PubSub: p.PubSub, Logger: locktest.Quiet()})
	require.NoError(t, err)
	leases := []*holdfast.Lease{locktest.Acquire(t, p.Lock(rt)), locktest.Acquire(t, p.Another(t).Lock(rt), holdfast.WithLease(time.Hour))}
	released := make(chan error, 1)
	p.Server.Pause()
	go func() { released <- rt.Semaphore(p.Name+"-permits").Release(context.Background(), 1) }()

	start := time.Now()
	err = rt.Close(context.Background())
	took := time.Since(start)

	t.Logf("closed in %v: %v", took, err)
	assert.ErrorContains(t, err, "no answer")
	assert.Less(t, took, 5500*time.Millisecond+5*locktest.Slack()) // Close waits 5 s for calls in flight
	for _, held := range leases {
		assert.ErrorIs(t, held.Err(), holdfast.ErrClosed)
		assert.NoError(t, held.Release(t.Context()), "a late release returns no error")
	}
	assert.ErrorIs(t, <-released, holdfast.ErrClosed)
	assert.Equal(t, err, rt.Close(t.Context()), "a second Close")
	p.Server.Resume()
}

// showCloseOverOutage calls Close while the server refuses connections. When the server accepts connections again, the locks are released.
func showCloseOverOutage(t *testing.T, p *locktest.Place) {
	rt, proxy := p.Proxied(t, holdfast.Options{Lease: 2 * time.Second})
	leases := []*holdfast.Lease{locktest.Acquire(t, p.Lock(rt)), locktest.Acquire(t, p.Another(t).Lock(rt))}
	proxy.Refuse(true)
	proxy.Cut()
	back := time.AfterFunc(300*time.Millisecond, func() { proxy.Refuse(false) })
	defer back.Stop()

	assert.NoError(t, rt.Close(t.Context()))

	for _, lease := range leases {
		assert.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
		assert.Zero(t, p.Redis.Exists(t.Context(), lease.Name()).Val(), "Close has not given up on a key")
	}
}

// showCloseOverCut cuts all connections and calls Close. The replies to the next twenty requests are lost, and their connections break, too.
func showCloseOverCut(t *testing.T, p *locktest.Place) {
	rt, proxy := p.Proxied(t, holdfast.Options{})
	for range 50 {
		locktest.Acquire(t, p.Another(t).Lock(rt))
	}
	proxy.DropReplies(20)
	proxy.Cut()

	assert.NoError(t, rt.Close(t.Context()))

	assert.Empty(t, p.Keys(t))
}

// showCloseInTheMiddle closes while locks are being acquired, passed on and released.
func showCloseInTheMiddle(t *testing.T, p *locktest.Place) {
	for i := range 30 {
		rt := p.Runtime(t, holdfast.Options{})
		name := redistest.Name(t)
		var pending []*holdfast.Pending
		for j := range i {
			var options []holdfast.AcquireOption
			if j%2 == 1 {
				options = append(options, holdfast.WithLease(time.Minute))
			}
			pending = append(pending, p.Kind.Lock(rt, name).AcquireAsync(t.Context(), options...))
		}
		for j := range i / 3 {
			lease, err := pending[j].Lease()
			require.NoError(t, err)
			go func() { _ = lease.Release(context.Background()) }()
		}

		require.NoError(t, rt.Close(t.Context()))

		require.Empty(t, p.Keys(t))
		for _, waiting := range pending {
			if lease, err := waiting.Lease(); err == nil {
				locktest.Closed(t, "Done", lease.Done())
				require.False(t, lease.Valid())
			} else {
				require.ErrorIs(t, err, holdfast.ErrClosed)
			}
		}
	}
}

// If the client was closed first, Close cannot release anything, and returns an error that says so.
func TestPromise_CloseAfterTheClient(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		var client redis.UniversalClient = locktest.Unasking(&redis.Options{Addr: p.Addr})
		if p.Cluster != nil {
			require.NoError(t, client.Close())
			client = redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: p.Cluster.Addrs(), MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			})
		}
		rt := locktest.NewRuntime(t, client, holdfast.Options{PubSub: p.PubSub})
		lease := locktest.Acquire(t, p.Lock(rt))
		require.NoError(t, client.Close())

		err := rt.Close(t.Context())

		require.ErrorIs(t, err, redis.ErrClosed)
		assert.ErrorContains(t, err, "the Redis client was closed before the runtime")
		assert.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
		assert.True(t, p.Exists(t), "the lock expires with its lease")
	})
}
