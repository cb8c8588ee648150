package faults_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A cluster grows: a slot moves to a new master. CLUSTER SLOTS does not list that master as long as it has no slots. Locks that are held in the slot
// stay held, and free ones can be acquired.
func TestFault_SlotMovesToAnEmptyMaster(t *testing.T) {
	t.Parallel()
	for name, addr := range map[string]func(host, port string) string{
		"IPv4": net.JoinHostPort,
		// Servers name themselves by an IPv6 address without brackets, which go-redis and the runtime must understand.
		"IPv6": func(_, port string) string { return net.JoinHostPort("::1", port) },
		// MOVED and ASK name no host, so the client must use the host at which it has reached the server.
		"no host": net.JoinHostPort,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			switch name {
			case "IPv6":
				needIPv6(t)
				args = []string{"--bind", "127.0.0.1", "::1", "--cluster-announce-ip", "::1"}
			case "no host":
				needUnknownEndpoints(t)
				args = []string{"--cluster-preferred-endpoint-type", "unknown-endpoint"}
			}
			showGrowing(t, addr, args...)
		})
	}
}

func needIPv6(t *testing.T) {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	require.NoError(t, listener.Close())
}

func needUnknownEndpoints(t *testing.T) {
	if len(redistest.Shared(t).Client(t).ConfigGet(t.Context(), "cluster-preferred-endpoint-type").Val()) == 0 {
		t.Skip("the server is older than Redis 7")
	}
}

func showGrowing(t *testing.T, addr func(host, port string) string, args ...string) {
	const slot = 3
	lease := locktest.Unhurried(time.Second)
	cluster := redistest.StartCluster(t, 2, 0, 15*time.Second, args...)
	empty := cluster.Grow()
	host, port, _ := strings.Cut(cluster.Masters[0].Addr(), ":")
	options := &redis.ClusterOptions{Addrs: []string{addr(host, port)}}
	if slices.Contains(args, "unknown-endpoint") {
		options.ClusterSlots = slotsAtTheStart(cluster) // go-redis cannot read the CLUSTER SLOTS reply of such a cluster
	}
	client := redis.NewClusterClient(options)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	rt := locktest.NewRuntime(t, client, holdfast.Options{Lease: lease})
	// While the slot moves, some of these locks may be on one master and some on the other. Then Redis answers TRYAGAIN to a script that renews several
	// of them. The runtime renews them one by one instead. That works, because each lock has only one key.
	held := make([]*holdfast.Lease, 5)
	for i := range held {
		held[i] = locktest.Acquire(t, rt.Lock(nameIn(t, slot)))
	}
	cluster.Move(slot, cluster.Masters[0], empty, func() {
		for range 3 {
			for _, lease := range held {
				locktest.Renewed(t, lease)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
		defer cancel()
		free, err := rt.Lock(nameIn(t, slot)).Acquire(ctx)
		require.NoError(t, err, "a free lock of the slot")
		held = append(held, free) // not released yet: until the slot has moved, Redis answers TRYAGAIN, because a release names two keys
		for _, lease := range held {
			assert.True(t, lease.Valid())
		}
	})
	for _, lease := range held {
		locktest.Renewed(t, lease)
		locktest.Release(t, lease)
	}
}

// slotsAtTheStart returns a function that says which master had which slots before the cluster grew.
func slotsAtTheStart(cluster *redistest.Cluster) func(context.Context) ([]redis.ClusterSlot, error) {
	return func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{
			{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: cluster.Masters[0].Addr()}}},
			{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: cluster.Masters[1].Addr()}}},
		}, nil
	}
}
