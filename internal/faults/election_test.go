package faults_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// A master of a cluster may lose its scripts, for example by a failover. An election then loads its scripts on this master again. It does so even if
// another master is silent.
func TestFault_ElectionBesideASilentMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, locktest.Patience)
	rt := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{})
	e := rt.Election(nameIn(t, 16000), holdfast.ElectionOptions{})
	_, err := e.Leader(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNoLeader)
	require.NoError(t, cluster.Masters[2].Client(t).ScriptFlush(t.Context()).Err())
	cluster.Masters[0].Pause()
	t.Cleanup(cluster.Masters[0].Resume)
	require.NoError(t, e.Run(t.Context(), func(ctx context.Context, term holdfast.Term) error {
		leader, err := e.Leader(ctx)
		assert.NoError(t, err)
		assert.Equal(t, term.Token, leader.Token, "it is announced")
		return holdfast.ErrResign
	}))
}

// If a hook of the client panics, an election's call to Redis returns an error, and the process keeps running.
func TestFault_ElectionAndAHookThatPanics(t *testing.T) {
	t.Parallel()
	client := locktest.NewClient(t, redistest.Start(t).Addr())
	client.AddHook(panicking{})
	rt := locktest.NewRuntime(t, client, holdfast.Options{Lease: shortLease})
	_, err := rt.Election("orders", holdfast.ElectionOptions{}).Leader(t.Context())
	assert.ErrorContains(t, err, "of the hook")
}

// panicking is a hook that panics at each script.
type panicking struct{}

func (panicking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (panicking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == "evalsha" {
			panic("of the hook")
		}
		return next(ctx, command)
	}
}

func (panicking) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { panic("of the hook") }
}

// An election ends a term even if the Logger panics, blocks or ends its goroutine.
func TestFault_LoggerHarmsNoElection(t *testing.T) {
	t.Parallel()
	for name, do := range badLoggers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, b := locktest.PlaceOf(t, "fenced lock"), newBlocker(t)
			require.NoError(t, p.Redis.Set(t.Context(), scripts.LeaderKey(p.Name), "so that announcing fails", 0).Err())
			rt := p.Runtime(t, holdfast.Options{Lease: shortLease, Logger: slog.New(handler{do(b)})})
			t.Cleanup(b.release)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				e := rt.Election(p.Name, holdfast.ElectionOptions{})
				assert.NoError(t, e.Run(t.Context(), func(context.Context, holdfast.Term) error { return holdfast.ErrResign }))
			}()
			locktest.Closed(t, "Run", ended)
			assert.False(t, p.Exists(t), "the leadership is given up")
		})
	}
}

// If OnLeader panics, the process learns of it by an event, and OnLeader is called with the next leader.
func TestFault_OnLeaderThatPanics(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "fenced lock")
	var events locktest.Recorder
	rt := p.Runtime(t, holdfast.Options{OnEvent: events.Record, Logger: locktest.Quiet()})
	called := 0
	e := rt.Election(p.Name, holdfast.ElectionOptions{OnLeader: func(holdfast.Leader) { called++; panic(called) }})
	terms := 0
	require.NoError(t, e.Run(t.Context(), func(context.Context, holdfast.Term) error {
		terms++
		locktest.Await(t, "the event", func() bool { return len(locktest.Recorded[holdfast.CallbackPanicked](&events)) == terms })
		if terms == 2 {
			return holdfast.ErrResign
		}
		return nil
	}))
	assert.Equal(t, []holdfast.CallbackPanicked{{Value: 1}, {Value: 2}}, locktest.Recorded[holdfast.CallbackPanicked](&events))
}

// When a Watch cannot learn who leads, the log says why, once.
func TestFault_WatchLogsWhyItKnowsNoLeader(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "fenced lock")
	var records atomic.Int32
	rt := p.Runtime(t, holdfast.Options{Logger: slog.New(handler{func() { records.Add(1) }})})
	watch := func(within time.Duration) (seen int) {
		ctx, stop := context.WithTimeout(t.Context(), within)
		defer stop()
		for range rt.Election(p.Name, holdfast.ElectionOptions{}).Watch(ctx) {
			seen++
		}
		return seen
	}
	assert.Zero(t, watch(100*time.Millisecond))
	assert.Zero(t, records.Load(), "nobody leads, and the end of a context is no failure")
	require.NoError(t, p.Redis.Set(t.Context(), scripts.LeaderKey(p.Name), "so that reading fails", 0).Err())
	assert.Zero(t, watch(2500*time.Millisecond))
	assert.Equal(t, int32(1), records.Load())
}

// Watch and Run return when their context ends, even if Redis is silent and the client has no timeouts.
func TestFault_ElectionEndsWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	for name, connected := range map[string]bool{"from the beginning": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			link := faultproxy.New(t, server.Addr())
			client := locktest.ClientWith(t, &redis.Options{Addr: link.Addr(), ReadTimeout: -1, WriteTimeout: -1})
			rt := locktest.NewRuntime(t, client, holdfast.Options{Lease: shortLease})
			e := rt.Election("orders", holdfast.ElectionOptions{OnLeader: func(holdfast.Leader) {}})
			t.Cleanup(func() { link.Blackhole(false) })
			link.Blackhole(!connected)
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				for range e.Watch(ctx) {
				}
			})
			running.Go(func() {
				assert.NoError(t, e.Run(ctx, func(ctx context.Context, _ holdfast.Term) error { <-ctx.Done(); return nil }))
			})
			if connected {
				locktest.Await(t, "Watch and OnLeader to subscribe", func() bool {
					return server.Client(t).PubSubNumSub(t.Context(), "holdfast_leader:{orders}").Val()["holdfast_leader:{orders}"] == 1
				})
				link.Blackhole(true)
				before := link.Accepted()
				link.Cut()
				locktest.Await(t, "new connections", func() bool { return link.Accepted() >= before+2 })
			} else {
				locktest.Await(t, "connections", func() bool { return link.Accepted() >= 2 })
			}
			stop()
			ended := make(chan struct{})
			go func() { running.Wait(); close(ended) }()
			locktest.Closed(t, "Watch and Run", ended)
		})
	}
}

// If a dialer panics when a Watch connects again, the process keeps running, and so does the Watch.
func TestFault_DialerThatPanicsWhenAWatchSubscribes(t *testing.T) {
	t.Parallel()
	place, snaps := locktest.OwnPlaceOf(t, "fenced lock"), &snapping{command: "subscribe"}
	rt := locktest.NewRuntime(t, locktest.ClientWith(t, &redis.Options{Addr: place.Addr, Dialer: snaps.dial}), holdfast.Options{})
	_, err := rt.Election(place.Name, holdfast.ElectionOptions{}).Leader(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNoLeader, "the connection for calls is made, so only the subscription is dialed from now on")
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for range rt.Election(place.Name, holdfast.ElectionOptions{}).Watch(t.Context()) {
			return
		}
	}()
	locktest.Await(t, "the panic", snaps.dialed.Load)
	e := place.Runtime(t, holdfast.Options{}).Election(place.Name, holdfast.ElectionOptions{})
	require.NoError(t, e.Run(t.Context(), func(context.Context, holdfast.Term) error {
		locktest.Closed(t, "Watch to see the leader", seen)
		return holdfast.ErrResign
	}))
}
