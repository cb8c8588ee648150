package holdfast_test

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestNew_NamesEveryBadField(t *testing.T) {
	t.Parallel()
	client := locktest.NewClient(t, "127.0.0.1:1")
	_, err := holdfast.New(client, holdfast.Options{
		Lease: time.Millisecond, RenewBatch: -1, FairWait: -1, Handoff: holdfast.Handoff{Max: -1, For: time.Hour},
		MaxWaiters: -1, AckReplicas: -1, AckTimeout: -1, PubSub: 7,
	})
	assert.ErrorIs(t, err, holdfast.ErrInvalid)
	for _, field := range []string{"Lease", "RenewBatch", "FairWait", "Handoff.Max", "Handoff.For", "MaxWaiters", "AckReplicas", "AckTimeout", "PubSub"} {
		assert.ErrorContains(t, err, field+" is ")
	}
	for _, bad := range []holdfast.Options{
		{Lease: 24*time.Hour + 1}, {Lease: -1}, {RenewBatch: 10_001}, {Handoff: holdfast.Handoff{For: 10*time.Second + 1}}, {Handoff: holdfast.Handoff{For: -1}},
	} {
		_, err := holdfast.New(client, bad)
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.Equal(t, 1, strings.Count(err.Error(), " must "), "only the bad field is named: %v", err)
	}
}

// The server does not answer while it waits for replicas, for up to AckTimeout. So a client whose ReadTimeout is not longer than AckTimeout would
// give up each acquire that has to wait.
func TestNew_AckTimeoutIsShorterThanReadTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		read, write, ack time.Duration
		replicas         int
		says             []string // nil: no error
	}{
		{time.Second, 0, 4 * time.Second, 1, []string{"AckTimeout is 4s", "ReadTimeout = 1s"}},
		{time.Second, 0, 4 * time.Second, 0, []string{"AckTimeout is 4s", "ReadTimeout = 1s"}},
		{time.Second, 0, time.Second, 1, []string{"AckTimeout is 1s", "ReadTimeout = 1s"}},
		{time.Second, 0, 0, 1, []string{"AckTimeout is 1s", "ReadTimeout = 1s"}},
		{time.Second, 0, 0, 0, nil},
		{time.Second, 0, 999 * time.Millisecond, 1, nil},
		{0, 0, 4 * time.Second, 1, nil},
		{0, 0, 5 * time.Second, 1, []string{"AckTimeout is 5s", "ReadTimeout = 5s"}},
		{time.Minute, time.Minute, 4 * time.Second, 1, nil},
		{time.Minute, time.Minute, 6 * time.Second, 1, []string{"AckTimeout is 6s", "5s", "ReadTimeout = 1m0s"}},
		{time.Second, -1, 4 * time.Second, 1, []string{"AckTimeout is 4s", "ReadTimeout = 1s"}},
		{-1, -1, 6 * time.Second, 1, []string{"AckTimeout is 6s", "5s", "ReadTimeout = none"}},
	} {
		single := locktest.ClientWith(t, &redis.Options{Addr: "127.0.0.1:1", ReadTimeout: c.read, WriteTimeout: c.write})
		cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ReadTimeout: c.read, WriteTimeout: c.write})
		sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}, ReadTimeout: c.read, WriteTimeout: c.write})
		for _, client := range []redis.UniversalClient{single, cluster, sentinel} {
			rt, err := holdfast.New(client, holdfast.Options{AckReplicas: c.replicas, AckTimeout: c.ack})
			if c.says == nil {
				if assert.NoError(t, err, "%T %+v", client, c) {
					assert.NoError(t, rt.Close(t.Context()))
				}
				continue
			}
			assert.ErrorIs(t, err, holdfast.ErrInvalid, "%T %+v", client, c)
			for _, text := range append(c.says, "lower AckTimeout") {
				assert.ErrorContains(t, err, text)
			}
		}
		assert.NoError(t, cluster.Close())
		assert.NoError(t, sentinel.Close())
	}
}

func TestNew_RefusesOtherClients(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer func() { assert.NoError(t, ring.Close()) }()
	for _, client := range []redis.UniversalClient{nil, (*redis.Client)(nil), ring} {
		_, err := holdfast.New(client, holdfast.Options{})
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.ErrorContains(t, err, "client")
	}
}

// With fewer than -1 retries, go-redis sends nothing and returns no error. So Check would find no fault in a server that does not exist.
func TestNew_RefusesClientsThatSendNothing(t *testing.T) {
	t.Parallel()
	for text, client := range map[string]redis.UniversalClient{
		"MaxRetries is -5":   redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -5}),
		"MaxRetries is -4":   redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRetries: -4}),
		"MaxRedirects is -3": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRedirects: -3}),
	} {
		_, err := holdfast.New(client, holdfast.Options{})
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.ErrorContains(t, err, text)
		assert.NoError(t, client.Close())
	}
}

// New does no I/O, and a runtime that was never used closes without a server.
func TestNew_NeedsNoServer(t *testing.T) {
	t.Parallel()
	rt, err := holdfast.New(locktest.NewClient(t, "127.0.0.1:1"), holdfast.Options{})
	require.NoError(t, err)
	assert.Len(t, rt.ID(), 36)
	other, err := holdfast.New(locktest.NewClient(t, "127.0.0.1:1"), holdfast.Options{})
	require.NoError(t, err)
	assert.NotEqual(t, rt.ID(), other.ID())
	assert.NoError(t, rt.Close(t.Context()))
	assert.NoError(t, other.Close(t.Context()))
}

func TestOptions_NameMapperMakesTheKey(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		mapped := p.Runtime(t, holdfast.Options{NameMapper: func(name string) string { return "app:" + name }})
		plain := p.Runtime(t, holdfast.Options{})
		lease := locktest.Acquire(t, p.Lock(mapped))
		assert.Equal(t, p.Name, lease.Name())
		assert.Equal(t, p.Name, p.Lock(mapped).Name())
		assert.False(t, p.Exists(t))
		other := locktest.Acquire(t, p.Lock(plain)) // another key
		locktest.Release(t, other)

		q := *p
		q.Name = "app:" + p.Name
		assert.Equal(t, map[string]string{lease.ID(): "1"}, q.Fields(t))
		waiting := q.Lock(plain).AcquireAsync(t.Context()) // the same key, and the same channel
		q.WaitForWaiter(t, plain)
		_, err := p.Lock(mapped).TryAcquire(t.Context())
		assert.ErrorContains(t, err, `"`+p.Name+`"`, "errors have the name that the caller knows")
		locktest.Release(t, lease)
		next, err := waiting.Lease()
		require.NoError(t, err)
		locktest.Release(t, next)

		bad := p.Runtime(t, holdfast.Options{NameMapper: func(name string) string { return "{}" + name }})
		_, err = p.Lock(bad).TryAcquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.ErrorContains(t, err, "mapper")
	})
}

// Several names may map to one key. They are then one lock, and each lease has the name under which it was acquired.
func TestOptions_NameMapperMayMakeNamesOne(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{NameMapper: strings.ToLower})
		upper, lower := p.Kind.Lock(rt, p.Name+"A"), p.Kind.Lock(rt, p.Name+"a")
		lease := locktest.Acquire(t, upper)
		_, err := lower.TryAcquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		locktest.Release(t, lease)
		lease = locktest.Acquire(t, lower)
		assert.Equal(t, lower.Name(), lease.Name())
		locktest.Release(t, lease)
	})
}

// A given actor system may contain several runtimes and other actors, and keeps running when the runtimes are closed.
func TestOptions_SystemIsSharedAndNotStopped(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return locktest.Quiet() }))
		defer system.Shutdown()
		echo := system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			if text, ok := c.Message().(string); ok {
				c.Respond(text)
			}
		}))
		defer func() { assert.NoError(t, system.Root.StopFuture(echo).Wait()) }()
		one, two := p.Runtime(t, holdfast.Options{System: system}), p.Runtime(t, holdfast.Options{System: system})
		assert.Same(t, system, one.System())
		assert.Same(t, system, two.System())
		own := p.Runtime(t, holdfast.Options{})
		assert.NotSame(t, system, own.System())

		lease := locktest.Acquire(t, p.Lock(one))
		_, err := p.Lock(two).TryAcquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired, "the runtimes exclude each other")
		require.NoError(t, one.Close(t.Context()))
		assert.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
		locktest.Release(t, locktest.Acquire(t, p.Lock(two)))
		require.NoError(t, two.Close(t.Context()))

		answer, err := system.Root.RequestFuture(echo, "still there", locktest.Patience).Result()
		require.NoError(t, err)
		assert.Equal(t, "still there", answer)
		assert.False(t, system.IsStopped())
		three := p.Runtime(t, holdfast.Options{System: system})
		locktest.Release(t, locktest.Acquire(t, p.Lock(three)))
		require.NoError(t, three.Close(t.Context()))
	})
}

func TestOptions_HandoffOfOneGivesTheLockBackEachTime(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{Handoff: holdfast.Handoff{Max: 1}})
		first := locktest.Acquire(t, p.Lock(rt))
		ids := map[string]bool{first.ID(): true}
		var waiting []*holdfast.Pending
		for range 10 {
			waiting = append(waiting, p.Lock(rt).AcquireAsync(t.Context()))
		}
		p.WaitForWaiting(t, rt, len(waiting))
		locktest.Release(t, first)
		for _, pending := range waiting {
			lease, err := pending.Lease()
			require.NoError(t, err)
			ids[lease.ID()] = true
			locktest.Release(t, lease)
		}
		assert.Len(t, ids, len(waiting)+1, "each has a grant of its own")
	})
}

// For any options, New makes a runtime that works, or names the wrong fields: all of them, and no others.
func FuzzOptions_WorkOrAreNamed(f *testing.F) {
	const second, day = int64(time.Second), int64(24 * time.Hour)
	f.Add(int64(0), 0, int64(0), 0, int64(0), 0, 0, int64(0), 0)
	f.Add(second, 1, int64(1), 1, int64(1), 1, 0, int64(1), 1)
	f.Add(day, 10_000, int64(math.MaxInt64), math.MaxInt, day/3, math.MaxInt, math.MaxInt, day/3, 1)
	f.Add(day+1, 10_001, int64(-1), -1, day, -1, -1, day, 3)
	f.Add(int64(50*time.Millisecond)-1, -1, int64(math.MinInt64), math.MinInt, int64(-1), math.MinInt, math.MinInt, int64(math.MinInt64), -1)
	f.Add(5*second, 100, second, 1<<53+1, int64(time.Millisecond), 1, 0, second, 2)
	f.Add(int64(-7), -7, int64(-7), -7, int64(-7), -7, -7, int64(-7), 256)
	f.Fuzz(func(t *testing.T, lease int64, renewBatch int, fairWait int64, most int, passFor int64, waiters, replicas int, ackTimeout int64, pubsub int) {
		if pubsub >= 256 { // in such runs the options are made valid, because random values hardly ever are
			lease, passFor, ackTimeout = second+positive(lease)%(day-second), positive(passFor)%(second/3), positive(ackTimeout)%(second/3)
			renewBatch, most, waiters = positive(renewBatch)%10_001, positive(most), positive(waiters)
			fairWait, replicas, pubsub = positive(fairWait), 0, pubsub%2
		}
		o := holdfast.Options{
			Lease: time.Duration(lease), RenewBatch: renewBatch, FairWait: time.Duration(fairWait),
			Handoff: holdfast.Handoff{Max: most, For: time.Duration(passFor)}, MaxWaiters: waiters,
			AckReplicas: replicas, AckTimeout: time.Duration(ackTimeout), PubSub: holdfast.PubSubMode(pubsub), Logger: locktest.Quiet(),
		}
		client := redistest.Shared(t).Client(t)
		rt, err := holdfast.New(client, o)
		if wrong := wrongFields(o); len(wrong) > 0 {
			requireNamed(t, err, wrong)
			return
		}
		require.NoError(t, err)
		defer func() { require.NoError(t, rt.Close(context.Background())) }()
		if replicas > 0 || o.Lease != 0 && o.Lease < time.Second {
			return // there are no replicas, and a busy machine may be too slow for a short lease
		}
		for _, lock := range []*holdfast.Lock{rt.FencedLock(redistest.Name(t)), rt.FairLock(redistest.Name(t))} {
			lease := locktest.Acquire(t, lock)
			require.True(t, lease.Valid())
			locktest.Release(t, lease)
		}
	})
}

func positive[T int | int64](n T) T { return max(n, -(n + 1)) }

// wrongFields returns the fields whose values the documentation forbids.
func wrongFields(o holdfast.Options) (wrong []string) {
	lease := o.Lease
	if lease == 0 {
		lease = 30 * time.Second
	}
	for field, bad := range map[string]bool{
		"Lease":       lease < 50*time.Millisecond || lease > 24*time.Hour,
		"RenewBatch":  o.RenewBatch < 0 || o.RenewBatch > 10_000,
		"FairWait":    o.FairWait < 0,
		"Handoff.Max": o.Handoff.Max < 0,
		"Handoff.For": o.Handoff.For < 0 || o.Handoff.For > lease/3,
		"MaxWaiters":  o.MaxWaiters < 0,
		"AckReplicas": o.AckReplicas < 0,
		"AckTimeout":  o.AckTimeout < 0 || o.AckTimeout > lease/3 || o.AckTimeout >= 5*time.Second, // the client's ReadTimeout
		"PubSub":      o.PubSub != holdfast.PubSubAuto && o.PubSub != holdfast.PubSubPlain,         // sharded needs a cluster
	} {
		if bad {
			wrong = append(wrong, field)
		}
	}
	return wrong
}

func requireNamed(t *testing.T, err error, wrong []string) {
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	said := 0
	for _, field := range wrong {
		require.Contains(t, err.Error(), field+" is ")
	}
	for _, field := range []string{"Lease", "RenewBatch", "FairWait", "Handoff.Max", "Handoff.For", "MaxWaiters", "AckReplicas", "AckTimeout", "PubSub"} {
		said += strings.Count(err.Error(), field+" is ")
	}
	require.Equal(t, len(wrong), said, "%v, wrong are %v", err, wrong)
}
