package faults_test

import (
	"fmt"
	"strconv"
	"strings"
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

// load counts the connections and scripts that the masters of a cluster have received.
type load struct{ connections, scripts int64 }

func (l load) since(before load) load {
	return load{l.connections - before.connections, l.scripts - before.scripts}
}

// loadOf adds up the loads of all masters.
func loadOf(t *testing.T, cluster *redistest.Cluster, clients []*redis.Client) (sum load) {
	for i, client := range clients {
		_, rest, _ := strings.Cut(client.Info(t.Context(), "stats").Val(), "total_connections_received:")
		count, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.ParseInt(count, 10, 64)
		require.NoError(t, err)
		sum.connections += n
		sum.scripts += cluster.Masters[i].CommandStats(t, "evalsha")["evalsha"]
	}
	return sum
}

// showNoStorm measures the load that 50 waiters cause, before and after a call of `refused`. This function makes the subscription of one more waiter
// fail. showNoStorm asserts that the load hardly grows.
func showNoStorm(t *testing.T, cluster *redistest.Cluster, waiter *holdfast.Runtime, refused func()) {
	holder := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{})
	var clients []*redis.Client
	for _, master := range cluster.Masters {
		clients = append(clients, master.Client(t))
	}
	for i := range 50 {
		name := fmt.Sprint("good", i)
		locktest.Acquire(t, holder.Lock(name))
		waiter.Lock(name).AcquireAsync(t.Context())
		awaitSharded(t, cluster, name)
	}
	const while = 3 * time.Second
	measure := func() load {
		before := loadOf(t, cluster, clients)
		<-time.After(while)
		return loadOf(t, cluster, clients).since(before)
	}
	quiet := measure()
	refused()
	refusing := measure()
	t.Logf("in %v: %+v, and with a refused channel %+v", while, quiet, refusing)
	assert.LessOrEqual(t, refusing.connections, 3*quiet.connections+9, "a refused channel costs few connections")
	assert.LessOrEqual(t, refusing.scripts, 3*quiet.scripts)
}

// TestFault_RefusedShardedChannel has a waiter for a lock whose channel the user may not subscribe to. That costs the other waiters nothing, and an
// event names the lock.
func TestFault_RefusedShardedChannel(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, 15*time.Second)
	for _, server := range cluster.Masters {
		require.NoError(t, server.Client(t).ACLSetUser(t.Context(), "app", "reset", "on", ">secret", "~*", "+@all", "&*good*").Err())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: cluster.Addrs(), Username: "app", Password: "secret",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	var events locktest.Recorder
	waiter := locktest.NewRuntime(t, client, holdfast.Options{OnEvent: events.Record})
	showNoStorm(t, cluster, waiter, func() {
		locktest.Acquire(t, locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{}).Lock("bad"))
		waiter.Lock("bad").AcquireAsync(t.Context())
	})
	told := locktest.Recorded[holdfast.SubscribeRefused](&events)
	require.Len(t, told, 1)
	assert.Equal(t, "bad", told[0].Lock())
	assert.Empty(t, locktest.Recorded[holdfast.Reconnected](&events))
}

// TestFault_UnservedSlot leaves the slot of one waiter without a master. That costs the other waiters nothing.
func TestFault_UnservedSlot(t *testing.T) {
	t.Parallel()
	const slot = 5
	cluster := redistest.StartCluster(t, 3, 0, 15*time.Second, "--cluster-require-full-coverage", "no")
	waiter := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{})
	lost := nameIn(t, slot)
	owner := cluster.Owner(lost)
	locktest.Acquire(t, locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{}).Lock(lost), holdfast.WithLease(time.Minute))
	pending := waiter.Lock(lost).AcquireAsync(t.Context())
	awaitSharded(t, cluster, lost)
	showNoStorm(t, cluster, waiter, func() {
		for _, master := range cluster.Masters {
			require.NoError(t, master.Client(t).ClusterDelSlots(t.Context(), slot).Err())
		}
	})
	pending.Cancel()
	require.NoError(t, owner.Client(t).ClusterAddSlots(t.Context(), slot).Err())
}
