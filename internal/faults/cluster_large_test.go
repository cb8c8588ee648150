package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestFault_TwelveMasters has locks on each of twelve masters. One master is killed, and has no replica to replace it. Holders of locks on the other
// masters keep them, and waiters there are woken. A process that starts afterwards can use these locks too.
func TestFault_TwelveMasters(t *testing.T) {
	t.Parallel()
	const masters = 12
	cluster := redistest.StartCluster(t, masters, 0, 15*time.Second)
	lease := locktest.Unhurried(3 * time.Second)
	runtime := func() *holdfast.Runtime {
		return locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{Lease: lease})
	}
	holder, waiter := runtime(), runtime()
	require.NoError(t, holder.CheckFor(t.Context(), holdfast.KindLock))
	leases, pendings := map[string]*holdfast.Lease{}, map[string]*holdfast.Pending{}
	for i := range masters {
		name := nameIn(t, i*16384/masters+100)
		leases[name] = locktest.Acquire(t, holder.Lock(name))
		pendings[name] = waiter.Lock(name).AcquireAsync(t.Context())
		awaitSharded(t, cluster, name)
	}
	victim := cluster.Masters[7]
	victim.Kill()
	late := runtime()
	for name, held := range leases {
		if cluster.Owner(name) == victim {
			continue
		}
		locktest.Renewed(t, held)
		_, err := late.Lock(name).TryAcquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		start := time.Now()
		locktest.Release(t, held)
		next, err := pendings[name].Lease()
		require.NoError(t, err)
		assert.Less(t, time.Since(start), servedWithin)
		locktest.Release(t, next)
		locktest.Release(t, locktest.Acquire(t, late.Lock(name)))
	}
}
