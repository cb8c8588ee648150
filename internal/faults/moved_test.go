package faults_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// In TestFault_MasterBehindAName, the host name of the master changes to another server, and the old master becomes a replica of that server. The
// connections for messages still lead to the old master, and work. The runtimes must replace these connections: the new master does not count
// subscribers at its replica, so a process that releases the lock would conclude that there are no waiters.
func TestFault_MasterBehindAName(t *testing.T) {
	t.Parallel()
	old := redistest.Start(t)
	next := redistest.Follow(t, old)
	var name atomic.Value
	name.Store(old.Addr())
	runtime := func() *holdfast.Runtime {
		client := locktest.ClientWith(t, &redis.Options{Addr: "redis:6379", Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, name.Load().(string))
		}})
		return locktest.NewRuntime(t, client, holdfast.Options{})
	}
	lock := redistest.Name(t)
	channels := []string{scripts.LockChannel(lock)}
	lease := locktest.Acquire(t, runtime().Lock(lock))
	var pending []*holdfast.Pending
	for range 2 {
		pending = append(pending, runtime().Lock(lock).AcquireAsync(t.Context()))
	}
	awaitSubscribed(t, old.Client(t), channels, 2)
	look := next.Client(t)
	locktest.Await(t, "the replica to have the lock", func() bool { return look.Exists(t.Context(), lock).Val() == 1 })

	require.NoError(t, look.ReplicaOf(t.Context(), "no", "one").Err())
	host, port, _ := strings.Cut(next.Addr(), ":")
	require.NoError(t, old.Client(t).ReplicaOf(t.Context(), host, port).Err())
	name.Store(next.Addr())

	require.Eventually(t, func() bool { // this takes at least two checks, one every 5 s
		return look.PubSubNumSub(t.Context(), channels[0]).Val()[channels[0]] == 2
	}, time.Minute, 20*time.Millisecond, "the subscriptions at the new master")
	locktest.Release(t, lease)
	for range pending {
		select {
		case <-pending[0].Done():
		case <-pending[1].Done():
			pending[0], pending[1] = pending[1], pending[0]
		}
		next, err := pending[0].Lease()
		require.NoError(t, err)
		locktest.Release(t, next)
		pending[0] = pending[1]
	}
}

// In TestFault_DemotedMasterBehindANameIsLeft, the host name of the master changes to another server, and the old master becomes a replica of that
// server. The client must close each of its many connections to the old master. go-redis itself closes a connection only if a reply as a whole is a
// refusal (READONLY). But a script for many locks returns a list, and go-redis does not look for refusals among the items of the list.
func TestFault_DemotedMasterBehindANameIsLeft(t *testing.T) {
	t.Parallel()
	const locks, connections = 64, 20
	old := redistest.Start(t)
	next := redistest.Follow(t, old)
	var name atomic.Value
	name.Store(old.Addr())
	client := locktest.ClientWith(t, &redis.Options{
		Addr: "redis:6379", PoolSize: connections, MinIdleConns: connections, MaxRetries: -1,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, name.Load().(string))
		},
	})
	var events locktest.Recorder
	rt := locktest.NewRuntime(t, client, holdfast.Options{OnEvent: events.Record})
	prefix := redistest.Name(t)
	held := make([]*holdfast.Lease, locks)
	for i := range held {
		held[i] = locktest.Acquire(t, rt.Lock(prefix+"held"+strconv.Itoa(i)))
	}
	locktest.Await(t, "the connections", func() bool { return client.PoolStats().IdleConns >= connections-5 })
	replica := next.Client(t)
	locktest.Await(t, "the replica to have all", func() bool { return replica.DBSize(t.Context()).Val() >= locks })

	require.NoError(t, next.Client(t).ReplicaOf(t.Context(), "no", "one").Err())
	host, port, _ := strings.Cut(next.Addr(), ":")
	require.NoError(t, old.Client(t).ReplicaOf(t.Context(), host, port).Err())
	name.Store(next.Addr())

	began := time.Now()
	var group sync.WaitGroup
	for i := range held {
		group.Go(func() {
			for j := range 20 { // many of these calls are always in flight, and share scripts
				ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
				defer cancel()
				lease, err := rt.Lock(prefix + strconv.Itoa(i)).Acquire(ctx)
				if !assert.NoError(t, err) {
					return
				}
				if j == 0 {
					assert.Less(t, time.Since(began), 5*time.Second+5*locktest.Slack())
				}
				assert.NoError(t, lease.Release(ctx))
			}
		})
	}
	group.Wait()
	t.Logf("%d times %d locks, in %v", 20, locks, time.Since(began))
	for _, lease := range held {
		assert.True(t, lease.Valid())
		locktest.Release(t, lease)
	}
}

// receivers is a hook that answers PUBLISH itself.
type receivers struct {
	redis.Hook
	n     int64
	asked atomic.Int64
}

func (r *receivers) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r *receivers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (r *receivers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "publish" {
			return next(ctx, cmd)
		}
		r.asked.Add(1)
		cmd.(interface{ SetVal(any) }).SetVal(r.n)
		return nil
	}
}

// A process waits for ten minutes. Every 5 s it publishes a message to itself, to check that it is subscribed at the server where releases are
// published. If the server counts a receiver, the process keeps its connection. If the count is always 0, the process makes new connections, less and
// less often.
func TestFault_LooksWhereMessagesAreTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                string
		receivers           int64
		asked, connectsMost int
	}{
		{"counted", 1, 10 * 60 / 5 * 9 / 10, 0},
		{"not counted", 0, 5, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, hook := locktest.NewBubble(t), &receivers{n: c.receivers}
				var events locktest.Recorder
				holder := server.Runtime(t, &locktest.Pipes{}, holdfast.Options{})
				waiter := server.Runtime(t, &locktest.Pipes{}, holdfast.Options{OnEvent: events.Record}, hook)
				lease := locktest.Acquire(t, holder.Lock("orders"))
				pending := waiter.Lock("orders").AcquireAsync(t.Context())
				<-time.After(10 * time.Minute)
				assert.GreaterOrEqual(t, int(hook.asked.Load()), c.asked)
				connects := len(locktest.Recorded[holdfast.Reconnected](&events))
				assert.LessOrEqual(t, connects, c.connectsMost)
				assert.Equal(t, c.receivers == 0, connects > 0)
				locktest.Release(t, lease)
				next, err := pending.Lease()
				require.NoError(t, err)
				locktest.Release(t, next)
			})
		})
	}
}
