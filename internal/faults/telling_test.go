package faults_test

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
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

// showHear makes two runtimes wake each other, and asserts that mostly messages wake them, not polling.
func showHear(t *testing.T, one, other *holdfast.Runtime) {
	var waits []time.Duration
	for i := range 10 {
		name := redistest.Name(t)
		lease := locktest.Acquire(t, one.Lock(name))
		pending := other.Lock(name).AcquireAsync(t.Context())
		locktest.Await(t, "a waiter", func() bool {
			state, err := other.Lock(name).Inspect(t.Context())
			return err == nil && state.Waiting > 0
		})
		<-time.After(10 * time.Millisecond) // for the subscription, sharded or plain
		start := time.Now()
		locktest.Release(t, lease)
		next, err := pending.Lease()
		require.NoError(t, err)
		waits = append(waits, time.Since(start))
		locktest.Release(t, next)
		if i%2 == 1 {
			one, other = other, one
		}
	}
	slices.Sort(waits)
	t.Logf("woken after %v (median), %v at most", waits[len(waits)/2], waits[len(waits)-1])
	assert.Less(t, waits[len(waits)*8/10], fallback/5)
}

// TestFault_BusyWhenItAsksHowMessagesAreTold has a runtime ask whether the cluster supports sharded pub/sub, while a script keeps the server busy.
// The runtime must ask again, and then use the same kind of pub/sub as the other runtime.
func TestFault_BusyWhenItAsksHowMessagesAreTold(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1, 0, 15*time.Second, "--lua-time-limit", "20")
	before := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{})
	locktest.Release(t, locktest.Acquire(t, before.Lock("first")))

	client := locktest.ClusterClient(t, cluster)
	require.NoError(t, client.Ping(t.Context()).Err()) // opens its connections before the server is busy
	rt := locktest.NewRuntime(t, client, holdfast.Options{})
	place := &locktest.Place{Addr: cluster.Masters[0].Addr()}
	free := occupy(t, place)
	pending := rt.Lock("first").AcquireAsync(t.Context())
	<-time.After(100 * time.Millisecond)
	free()
	lease, err := pending.Lease()
	require.NoError(t, err)
	locktest.Release(t, lease)
	showHear(t, before, rt)
}

// TestFault_SentinelByAClusterClient uses a cluster client with Sentinel, although there is no cluster: go-redis makes such a client if its options
// allow reads from replicas. Processes with this client and processes with an ordinary client wake each other.
func TestFault_SentinelByAClusterClient(t *testing.T) {
	t.Parallel()
	guarded := redistest.SharedGuarded(t)
	ordinary := locktest.NewRuntime(t, guarded.Client(t), holdfast.Options{})
	for name, made := range map[string]redis.UniversalClient{
		"universal": redis.NewUniversalClient(&redis.UniversalOptions{MasterName: redistest.GuardedName, RouteRandomly: true}),
		"failover":  redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: redistest.GuardedName, RouteRandomly: true}),
	} {
		t.Run(name, func(t *testing.T) {
			rt := locktest.NewRuntime(t, likeSentinels(t, made, guarded), holdfast.Options{})
			require.NoError(t, rt.Check(t.Context()))
			showHear(t, ordinary, rt)
		})
	}
}

// likeSentinels returns a client with the options of a client that go-redis has made for Sentinels. But the new client learns from the test which
// server is the master. If it asked the Sentinels, go-redis would keep listening to them after Close.
func likeSentinels(t *testing.T, made redis.UniversalClient, guarded *redistest.Guarded) *redis.ClusterClient {
	options := *made.(*redis.ClusterClient).Options()
	require.NoError(t, made.Close())
	require.NotNil(t, options.ClusterSlots)
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	options.ClusterSlots = func(context.Context) ([]redis.ClusterSlot, error) {
		nodes := []redis.ClusterNode{{Addr: guarded.Master().Addr()}}
		for _, server := range guarded.Servers {
			if server.Addr() != nodes[0].Addr {
				nodes = append(nodes, redis.ClusterNode{Addr: server.Addr()})
			}
		}
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: nodes}}, nil
	}
	client := redis.NewClusterClient(&options)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

// TestFault_SilentHandshakeOnACluster has a waiter subscribe at a server that accepts connections and never replies. The client has no timeouts.
// When the waiter has been cancelled, the runtime still closes in time.
func TestFault_SilentHandshakeOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1, 0, 15*time.Second)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, silent.Close()) })
	var away atomic.Bool
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: cluster.Addrs(), ReadTimeout: -1, WriteTimeout: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if away.Load() {
				addr = silent.Addr().String()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	holder := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{PubSub: holdfast.PubSubPlain})
	rt := locktest.NewRuntime(t, client, holdfast.Options{PubSub: holdfast.PubSubPlain})
	name := redistest.Name(t)
	locktest.Release(t, locktest.Acquire(t, rt.Lock(name)))

	locktest.Acquire(t, holder.Lock(name))
	away.Store(true)
	pending := rt.Lock(name).AcquireAsync(t.Context())
	<-time.After(50 * time.Millisecond)
	pending.Cancel()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience/2)
	defer cancel()
	assert.NoError(t, rt.Close(ctx))
}
