package promises_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// replicated is a master with one replica. Some tests run them as a cluster, some without a cluster.
type replicated struct {
	master, replica *redistest.Server
	client          func(t *testing.T) redis.UniversalClient
}

func replicatedServers(t *testing.T) replicated {
	master := redistest.Start(t)
	replica := redistest.Follow(t, master)
	return replicated{master, replica, func(t *testing.T) redis.UniversalClient { return locktest.NewClient(t, master.Addr()) }}
}

func replicatedCluster(t *testing.T) replicated {
	cluster := redistest.StartCluster(t, 1, 1, 15*time.Second)
	return replicated{
		cluster.Masters[0], cluster.Replicas[0], func(t *testing.T) redis.UniversalClient { return locktest.ClusterClient(t, cluster) },
	}
}

func TestAckReplicas_GrantsAreAcknowledgedOrUndone(t *testing.T) {
	t.Parallel()
	for where, start := range map[string]func(t *testing.T) replicated{"server": replicatedServers, "cluster": replicatedCluster} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			rt := locktest.NewRuntime(t, r.client(t), holdfast.Options{AckReplicas: 1, AckTimeout: 200 * time.Millisecond})
			require.NoError(t, rt.Check(t.Context()))
			follower := r.replica.Client(t).Conn()
			if where == "cluster" {
				require.NoError(t, follower.ReadOnly(t.Context()).Err())
			}
			for _, kind := range locktest.Kinds {
				lock := kind.Lock(rt, redistest.Name(t))
				lease := locktest.Acquire(t, lock)
				assert.True(t, follower.HExists(t.Context(), lock.Name(), lease.ID()).Val(), "%s: the replica has it", kind.Name)
				locktest.Release(t, lease)
			}
			r.replica.Pause()
			for _, kind := range locktest.Kinds {
				lock := kind.Lock(rt, redistest.Name(t))
				_, err := lock.Acquire(t.Context())
				assert.ErrorIs(t, err, holdfast.ErrNotReplicated, kind.Name)
				assert.ErrorContains(t, err, lock.Name())
				_, err = lock.TryAcquire(t.Context())
				assert.ErrorIs(t, err, holdfast.ErrNotReplicated, "%s: a try does not find the grant that is being undone", kind.Name)
				locktest.Await(t, "the grant to be undone", func() bool {
					return r.master.Client(t).Exists(t.Context(), lock.Name()).Val() == 0
				})
			}
			r.replica.Resume()
			locktest.Await(t, "the replica to acknowledge again", func() bool {
				lease, err := rt.Lock(redistest.Name(t)).TryAcquire(t.Context())
				return err == nil && lease.Release(t.Context()) == nil
			})
		})
	}
}

func TestAckReplicas_CheckMissesReplicas(t *testing.T) {
	t.Parallel()
	rt := locktest.NewRuntime(t, locktest.NewClient(t, redistest.Start(t).Addr()), holdfast.Options{AckReplicas: 2})
	assert.ErrorContains(t, rt.Check(t.Context()), "AckReplicas is 2, the server has 0 replicas")
}

// WAIT takes whole milliseconds, and 0 would be no limit at all. So a limit below a millisecond must not become 0.
func TestAckReplicas_ShortestTimeout(t *testing.T) {
	t.Parallel()
	client := locktest.NewClient(t, redistest.Start(t).Addr())
	rt := locktest.NewRuntime(t, client, holdfast.Options{AckReplicas: 1, AckTimeout: time.Nanosecond})
	_, err := rt.Lock(redistest.Name(t)).Acquire(t.Context())
	assert.ErrorIs(t, err, holdfast.ErrNotReplicated)
}
