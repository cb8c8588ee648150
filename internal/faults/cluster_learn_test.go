package faults_test

import (
	"context"
	"net"
	"slices"
	"sync"
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

// TestFault_StartWhileAMasterIsDown starts processes while one master of a cluster is down, with no replica to replace it. Locks of the other
// masters can be acquired at once, and Check names the master that is down.
func TestFault_StartWhileAMasterIsDown(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]struct {
		do     func(*redistest.Server)
		within time.Duration
	}{
		"killed":  {(*redistest.Server).Kill, time.Second},
		"stopped": {(*redistest.Server).Pause, 2 * time.Second}, // although the client's timeouts are 5 s
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, 3, 0, time.Minute)
			victim := cluster.Owner("holdfast")
			names := []string{nameIn(t, 1), nameIn(t, 8000), nameIn(t, 16000)}
			names = slices.DeleteFunc(names, func(name string) bool { return cluster.Owner(name) == victim })
			down.do(victim)
			var waits []time.Duration
			for range locktest.Scaled(10, 3) { // go-redis asks its nodes in random order
				rt := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{})
				for _, name := range names {
					start := time.Now()
					lease := locktest.Acquire(t, rt.Lock(name))
					waits = append(waits, time.Since(start))
					locktest.Release(t, lease)
				}
			}
			slices.Sort(waits)
			t.Logf("a lock was acquired after %v (median), %v at most", waits[len(waits)/2], waits[len(waits)-1])
			assert.Less(t, waits[len(waits)-1], down.within+locktest.Slack())

			rt := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{})
			var found *holdfast.CheckError
			require.ErrorAs(t, rt.CheckFor(t.Context(), holdfast.KindLock), &found)
			require.Len(t, found.Findings, 1)
			t.Log(found)
			assert.Contains(t, found.Findings[0].What, victim.Addr())
			if name == "stopped" {
				victim.Resume()
			}
		})
	}
}

// TestFault_CloseWhileAMasterIsSilent closes a runtime while one master, or every master, accepts connections but never replies. The cluster client
// has no timeouts. Still, Close is quick: the runtime has sent no acquire to these masters, so it has nothing to release there.
func TestFault_CloseWhileAMasterIsSilent(t *testing.T) {
	t.Parallel()
	for name, alive := range map[string]bool{"one": true, "all": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, 3, 0, time.Minute)
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, silent.Close()) })
			victim := cluster.Owner("holdfast")
			client := redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: cluster.Addrs(), ReadTimeout: -1, WriteTimeout: -1,
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
				Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if !alive || addr == victim.Addr() {
						addr = silent.Addr().String()
					}
					return new(net.Dialer).DialContext(ctx, network, addr)
				},
			})
			t.Cleanup(func() { assert.NoError(t, client.Close()) })
			rt := locktest.NewRuntime(t, client, holdfast.Options{})
			for _, slot := range []int{1, 8000, 16000} {
				switch name := nameIn(t, slot); {
				case !alive:
					rt.Lock(name).AcquireAsync(t.Context())
				case cluster.Owner(name) != victim:
					locktest.Release(t, locktest.Acquire(t, rt.Lock(name)))
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience/2)
			defer cancel()
			start := time.Now()
			assert.NoError(t, rt.Close(ctx))
			t.Logf("closed after %v", time.Since(start))
		})
	}
}

// TestFault_StoppedMasterWithoutTimeouts stops a master, which a replica then replaces. If a client without timeouts asks the stopped master for the
// cluster's masters, the client never gets an answer. So the runtime must learn of the new master from the other masters.
func TestFault_StoppedMasterWithoutTimeouts(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, time.Second)
	name := redistest.Name(t)
	var runtimes []*holdfast.Runtime
	for range 8 { // go-redis asks its nodes in random order
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cluster.Addrs(), ReadTimeout: -1, WriteTimeout: -1, MaintNotificationsConfig: noMaintenance(),
		})
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		rt := locktest.NewRuntime(t, client, holdfast.Options{Lease: failoverLease})
		locktest.Release(t, locktest.Acquire(t, rt.Lock(name)))
		runtimes = append(runtimes, rt)
	}
	stopped := cluster.Owner(name)
	stopped.Pause()
	start := time.Now()
	var group sync.WaitGroup
	for _, rt := range runtimes {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*locktest.Patience)
			defer cancel()
			lease, err := rt.Lock(name).Acquire(ctx)
			for err != nil && ctx.Err() == nil {
				lease, err = rt.Lock(name).Acquire(ctx)
			}
			if assert.NoError(t, err) {
				assert.NoError(t, lease.Release(ctx))
			}
		})
	}
	group.Wait()
	t.Logf("all were served %v after the master was stopped", time.Since(start))
	stopped.Resume()
}
