package faults_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// The hooks of a cluster's nodes (OnNewNode) also see the calls to a master that has no slot yet. This matters for a hook that puts a prefix before
// keys. While a slot moves to that master, a call without the hook would look for the lock under the wrong key. So a second holder would get the
// lock.
func TestFault_HookThatRenamesKeysWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0, 15*time.Second)
	name := "{" + redistest.Name(t) + "}lock" // the prefix leaves it in its slot
	from, to := cluster.Owner(name), cluster.Grow()
	var locks []*holdfast.Lock
	for range 2 {
		client := locktest.ClusterClient(t, cluster)
		client.OnNewNode(func(node *redis.Client) { node.AddHook(renaming(keysOnly)) })
		rt := locktest.NewRuntime(t, client, holdfast.Options{Lease: locktest.Unhurried(time.Second)})
		locks = append(locks, rt.Lock(name))
	}
	held := locktest.Acquire(t, locks[0])
	cluster.Move(int(scripts.Slot(name)), from, to, func() {
		_, err := locks[1].TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		locktest.Renewed(t, held)
	})
	require.True(t, held.Valid())
	locktest.Release(t, held)
	locktest.Release(t, locktest.Acquire(t, locks[1]))
	for _, key := range locktest.Keys(t, cluster.Client(t)) {
		require.True(t, strings.HasPrefix(key, "tenant:"), key)
	}
}
