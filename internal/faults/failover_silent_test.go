package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// TestFault_SilentMasterIsReplaced makes a master of a cluster fall silent, so that calls to it hang. When a replica has taken its place, leases are
// released. The replica confirms these releases long before the connections to the old master are given up.
func TestFault_SilentMasterIsReplaced(t *testing.T) {
	t.Parallel()
	for range locktest.Scaled(3, 1) {
		showSilentMasterReplaced(t)
	}
}

func showSilentMasterReplaced(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 1, time.Second)
	client := locktest.ClusterClient(t, cluster)
	rt := locktest.NewRuntime(t, client, holdfast.Options{Lease: failoverLease})
	slot := int(scripts.Slot(redistest.Name(t)))
	key := nameIn(t, slot)
	const length = 4 * failoverLease // longer than a failover takes
	var held []*holdfast.Lease
	for range 5 {
		held = append(held, locktest.Acquire(t, rt.Lock(nameIn(t, slot)), holdfast.WithLease(length)))
	}
	master := cluster.Owner(key).Client(t)
	locktest.Await(t, "the replica to have them", func() bool { return master.Wait(t.Context(), 1, time.Second).Val() == 1 })

	ctx, stop := context.WithCancel(t.Context())
	var users sync.WaitGroup
	defer users.Wait()
	defer stop()
	for range 5 {
		lock := rt.Lock(nameIn(t, slot))
		users.Go(func() {
			for ctx.Err() == nil {
				_ = lock.Do(ctx, func(context.Context) error { return nil })
			}
		})
	}
	cluster.FailOverSilent(key)
	stalls := locktest.NewStalls(cluster.Replicas[0].Client(t))
	defer stalls.End()
	start := time.Now()
	var releases sync.WaitGroup
	for _, lease := range held {
		releases.Go(func() { assert.NoError(t, lease.Release(t.Context())) })
	}
	releases.Wait()
	took := time.Since(start)
	t.Logf("confirmed %v after the failover", took.Round(time.Millisecond))
	// Usually the releases wait in the gateway until it knows the new master, and are then sent there. But while a master is silent, the gateway
	// sends it one call at a time as a probe. One of the releases may be such a probe, and then it hangs at the old master. The runtime repeats this
	// release after rpc.Window, the longest time that one attempt may take. It gives up the connections to the old master only later, after four
	// windows of its lease.
	assert.Less(t, took, rpc.Window(length)+failoverLease/3+2*stalls.Slack())
}
