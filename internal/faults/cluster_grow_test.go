package faults_test

import (
	"context"
	"net"
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

// A cluster grows: a slot is on its way to a master that has none yet, so CLUSTER SLOTS does not tell of it. What is held in the slot
// stays held, and what is free there can be had.
func TestFault_SlotMovesToAnEmptyMaster(t *testing.T) {
	t.Parallel()
	for name, addr := range map[string]func(host, port string) string{
		"IPv4": net.JoinHostPort,
		// The reply of a server without brackets is what go-redis and we have to understand; the server is the same.
		"IPv6": func(_, port string) string { return net.JoinHostPort("::1", port) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			if name == "IPv6" {
				needIPv6(t)
				args = []string{"--bind", "127.0.0.1", "::1", "--cluster-announce-ip", "::1"}
			}
			showGrowing(t, addr, args...)
		})
	}
}

func needIPv6(t *testing.T) {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err) // the addresses themselves: TestRedirected in actors
	}
	require.NoError(t, listener.Close())
}

func showGrowing(t *testing.T, addr func(host, port string) string, args ...string) {
	const slot = 3
	lease := locktest.Unhurried(time.Second)
	cluster := redistest.StartCluster(t, 2, 0, 15*time.Second, args...)
	empty := cluster.Grow()
	host, port, _ := strings.Cut(cluster.Masters[0].Addr(), ":")
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr(host, port)}})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	rt := locktest.NewRuntime(t, client, holdfast.Options{Lease: lease})
	// One lock with one key: for keys on both sides, of one lock or of one batch of renewals, Redis answers TRYAGAIN until the slot has moved.
	held := []*holdfast.Lease{locktest.Acquire(t, rt.Lock(nameIn(t, slot)))}
	cluster.Move(slot, cluster.Masters[0], empty, func() {
		locktest.Renewed(t, held[0])
		ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
		defer cancel()
		free, err := rt.Lock(nameIn(t, slot)).Acquire(ctx)
		require.NoError(t, err, "a free lock of the slot")
		held = append(held, free) // its release names the channel, too: Redis answers TRYAGAIN until the slot has moved
		assert.True(t, held[0].Valid())
	})
	for _, lease := range held {
		locktest.Renewed(t, lease)
		locktest.Release(t, lease)
	}
}
