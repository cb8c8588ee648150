package faults_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestFault_SlotMovesToASilentMaster begins to move a slot to another master, and stops that master. When a process tries to acquire a free lock in
// this slot, the old master redirects the call to the stopped master, which does not answer. Meanwhile, calls for the locks in the old master's other
// slots are not delayed, and the leases of these locks are not lost.
func TestFault_SlotMovesToASilentMaster(t *testing.T) {
	t.Parallel()
	const moving = 5
	cluster := redistest.StartCluster(t, 3, 0, time.Minute)
	from, to := cluster.Masters[0], cluster.Masters[1]
	rt := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{Lease: locktest.Unhurried(3 * time.Second)})
	held, away := locktest.Acquire(t, rt.Lock(nameIn(t, 10))), rt.Lock(nameIn(t, moving))
	gone := locktest.Acquire(t, away)
	require.NoError(t, to.Client(t).Do(t.Context(), "cluster", "setslot", moving, "importing", from.ID()).Err())
	require.NoError(t, from.Client(t).Do(t.Context(), "cluster", "setslot", moving, "migrating", to.ID()).Err())
	host, port, _ := strings.Cut(to.Addr(), ":")
	require.NoError(t, from.Client(t).Migrate(t.Context(), host, port, away.Name(), 0, locktest.Patience).Err())
	locktest.Renewed(t, gone)
	to.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 150 { // a gateway has fewer goroutines (awayMax) that follow redirections to one address
		free := rt.Lock(nameIn(t, moving))
		group.Go(func() {
			for ctx.Err() == nil {
				_, _ = free.Acquire(ctx, holdfast.WithWait(time.Second))
			}
		})
	}
	var most time.Duration
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); <-time.After(20 * time.Millisecond) {
		began := time.Now()
		locktest.Release(t, locktest.Acquire(t, rt.Lock(nameIn(t, 20))))
		most = max(most, time.Since(began))
	}
	t.Logf("while the other master was silent, a lock was acquired and released within %v", most)
	assert.Less(t, most, 500*time.Millisecond+locktest.Slack())
	locktest.Renewed(t, held)
	cancel()
	to.Resume()
	group.Wait()
	locktest.Release(t, held)
	cluster.Move(moving, from, to, nil) // so that the runtime can release the others
}
