package faults_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// TestFault_MasterLeavesTheCluster removes a master from a cluster. Two processes receive their plain messages (not sharded ones) from this master.
// Their connections do not break. So the processes have to notice by themselves that the master has left, and have to connect to another master. Then
// one process lets a lock linger, and the other process demands this lock. The first process must receive the demand.
func TestFault_MasterLeavesTheCluster(t *testing.T) {
	t.Parallel()
	const linger = 7 * time.Second
	cluster := redistest.StartCluster(t, 2, 0, 15*time.Second)
	leaver := cluster.Grow()
	var left atomic.Bool
	process := func() *holdfast.Runtime {
		client := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterStateReloadInterval: time.Second,
			// Until the leaver has left, this function says that the leaver has all slots. So the process connects to the leaver for messages. The leaver
			// redirects calls.
			ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
				if left.Load() {
					return slotsAtTheStart(cluster)(ctx)
				}
				return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: leaver.Addr()}}}}, nil
			},
		})
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		return locktest.NewRuntime(t, client, holdfast.Options{Linger: linger})
	}
	one, other, name := process(), process(), redistest.Name(t)
	for _, rt := range []*holdfast.Runtime{one, other} {
		locktest.Release(t, locktest.Acquire(t, rt.SpinLock(name))) // only a call makes a process look for the masters
	}
	demanded := func(servers ...*redistest.Server) (n int) {
		for _, server := range servers {
			n += len(server.Client(t).PubSubChannels(t.Context(), scripts.DemandChannel("*")).Val())
		}
		return n
	}
	locktest.Await(t, "both processes to listen at the leaver", func() bool { return demanded(leaver) == 2 })
	for _, master := range cluster.Masters[:2] {
		require.NoError(t, master.Client(t).ClusterForget(t.Context(), leaver.ID()).Err())
	}
	require.NoError(t, leaver.Client(t).ClusterResetSoft(t.Context()).Err())
	left.Store(true)
	locktest.Await(t, "both processes to listen elsewhere", func() bool { return demanded(cluster.Masters[:2]...) == 2 })
	locktest.Release(t, locktest.Acquire(t, one.Lock(name)))
	began := time.Now()
	locktest.Release(t, locktest.Acquire(t, other.Lock(name)))
	assert.Less(t, time.Since(began), linger/2)
}
