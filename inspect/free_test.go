package inspect_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func free(t *testing.T, client redis.UniversalClient, name string) bool {
	t.Helper()
	freed, err := inspect.Free(t.Context(), client, name)
	require.NoError(t, err)
	return freed
}

func TestFree_WakesTheWaiters(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		assert.False(t, free(t, p.Redis, p.Name), "not in use")
		lease := locktest.Acquire(t, p.Lock(rt))
		messages := listen(t, p)
		pending := p.Lock(other).AcquireAsync(t.Context())
		switch {
		case p.Kind.Queued:
			awaitWaiting(t, p.Redis, p.Name, 1)
		case !p.Kind.Deaf:
			awaitWaiting(t, p.Redis, p.Name, 2) // the second one is the test's own subscription
		}
		assert.True(t, free(t, p.Redis, p.Name))
		want := "0"
		if p.Kind.Name == "write lock" {
			want = "1"
		}
		assert.Equal(t, want, (<-messages).Payload)
		next, err := pending.Lease()
		require.NoError(t, err)
		assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
		assert.True(t, next.Valid())
		locktest.Release(t, next)
		assert.False(t, free(t, p.Redis, p.Name))
	})
}

// listen returns the messages that wake the waiters of a lock.
func listen(t *testing.T, p *locktest.Place) <-chan *redis.Message {
	t.Helper()
	channel := "redisson_lock__channel:{" + p.Name + "}"
	if p.Kind.Name == "write lock" {
		channel = "redisson_rwlock:{" + p.Name + "}"
	}
	subscribe := p.Redis.Subscribe
	if p.Cluster != nil && p.PubSub != holdfast.PubSubPlain && p.Redis.PubSubShardNumSub(t.Context()).Err() == nil {
		subscribe = p.Redis.SSubscribe
	}
	messages := subscribe(t.Context(), channel)
	t.Cleanup(func() { assert.NoError(t, messages.Close()) })
	_, err := messages.Receive(t.Context())
	require.NoError(t, err)
	return messages.Channel()
}

func TestFree_Readers(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		locktest.Acquire(t, rt.RWLock(p.Name).Read())
		locktest.Acquire(t, other.RWLock(p.Name).Read())
		assert.True(t, free(t, p.Redis, p.Name))
		assert.Empty(t, p.TimeoutKeys(t))
		locktest.Release(t, locktest.Acquire(t, p.Runtime(t, holdfast.Options{}).RWLock(p.Name).Write()))
	})
}

func TestFree_PermitsComeBack(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		permits := rt.PermitSemaphore(p.Name)
		require.NoError(t, permits.SetPermits(t.Context(), 3))
		var leases []*holdfast.Lease
		for range 3 {
			lease, err := permits.TryAcquire(t.Context(), holdfast.WithLease(time.Hour))
			require.NoError(t, err)
			leases = append(leases, lease)
		}
		errs := make(chan error, 1)
		go func() {
			lease, err := other.PermitSemaphore(p.Name).Acquire(t.Context())
			if err == nil {
				err = lease.Release(t.Context())
			}
			errs <- err
		}()
		awaitWaiting(t, p.Redis, p.Name, 1)
		assert.True(t, free(t, p.Redis, p.Name))
		require.NoError(t, <-errs)
		assert.Equal(t, 3, look(t, p.Redis, p.Name).Available)
		for _, lease := range leases {
			assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
		}
	})
}

func TestFree_NothingIsHeldOfACount(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		_, err := p.Runtime(t, holdfast.Options{}).Semaphore(p.Name).TrySetPermits(t.Context(), 2)
		require.NoError(t, err)
		freed, err := inspect.Free(t.Context(), p.Redis, p.Name)
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.False(t, freed)
		assert.Equal(t, 2, look(t, p.Redis, p.Name).Available)
	})
}

func TestFree_LoadsItsScript(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	require.NoError(t, p.Redis.HSet(t.Context(), p.Name, locktest.Stranger(1), 1).Err())
	assert.True(t, free(t, p.Redis, p.Name))
	assert.False(t, p.Exists(t))
}

// A cluster client does not imply a cluster: redis.NewUniversalClient also returns a cluster client if MasterName is set together with RouteByLatency,
// RouteRandomly or IsClusterMode. Waiters then use SUBSCRIBE, so Free must wake them by PUBLISH and not by SPUBLISH.
func TestFree_ClusterClientWithoutACluster(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: p.Addr}}}}, nil
		},
	})
	defer func() { assert.NoError(t, client.Close()) }()
	rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
	locktest.Acquire(t, rt.Lock(p.Name))
	pending := other.Lock(p.Name).AcquireAsync(t.Context())
	awaitWaiting(t, client, p.Name, 1)
	assert.Equal(t, []string{p.Name}, names(list(t, client, inspect.ListOptions{Contended: true, Pattern: p.Name})))
	messages := listen(t, p)
	assert.True(t, free(t, client, p.Name))
	assert.Equal(t, "0", (<-messages).Payload)
	lease, err := pending.Lease()
	require.NoError(t, err)
	locktest.Release(t, lease)
}
