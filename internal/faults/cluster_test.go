package faults_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// nameIn returns a lock name whose keys are in the given slot.
func nameIn(t *testing.T, slot int) string {
	name := redistest.Name(t)
	for i := 0; ; i++ {
		if one := name + strconv.Itoa(i); int(scripts.Slot(one)) == slot {
			return one
		}
	}
}

// TestFault_ShardedSubscriptionsKilled has waiters in three slots of one master and in one slot of each other master. The waiters' connections are
// killed again and again. Each time, the process must subscribe again for each slot separately, because Redis refuses a command that names channels
// of two slots. In the end, each waiter is woken by the release of its lock.
func TestFault_ShardedSubscriptionsKilled(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, 15*time.Second)
	holder := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{})
	waiter := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{})
	rounds := locktest.Scaled(50, 5)
	var waits []time.Duration
	for range rounds {
		leases, pendings := map[string]*holdfast.Lease{}, map[string]*holdfast.Pending{}
		for _, slot := range []int{1, 2, 3, 8000, 16000} {
			name := nameIn(t, slot)
			leases[name] = locktest.Acquire(t, holder.Lock(name))
			pendings[name] = waiter.Lock(name).AcquireAsync(t.Context())
		}
		for range 3 {
			for name := range leases {
				awaitSharded(t, cluster, name)
			}
			for _, master := range cluster.Masters {
				master.Client(t).ClientKillByFilter(t.Context(), "TYPE", "pubsub")
			}
		}
		for name, lease := range leases {
			awaitSharded(t, cluster, name)
			start := time.Now()
			locktest.Release(t, lease)
			next, err := pendings[name].Lease()
			require.NoError(t, err)
			waits = append(waits, time.Since(start))
			locktest.Release(t, next)
		}
	}
	slices.Sort(waits)
	t.Logf("%d rounds: woken after %v (median), %v at most", rounds, waits[len(waits)/2], waits[len(waits)-1])
	assert.Less(t, waits[len(waits)/2], fallback/4, "by messages")
}

// awaitSharded returns when there is a subscription to a lock's channel at its master.
func awaitSharded(t *testing.T, cluster *redistest.Cluster, name string) {
	awaitShardedAt(t, cluster.Owner(name), name)
}

func awaitShardedAt(t *testing.T, node *redistest.Server, name string) {
	client, channel := node.Client(t), scripts.LockChannel(name)
	locktest.Await(t, "a subscription", func() bool {
		return client.PubSubShardNumSub(t.Context(), channel).Val()[channel] == 1
	})
}

// TestFault_SlotMovesUnderLoad moves the slot of locks of every kind back and forth between masters while two processes contend for them.
func TestFault_SlotMovesUnderLoad(t *testing.T) {
	t.Parallel()
	for _, mode := range []holdfast.PubSubMode{holdfast.PubSubSharded, holdfast.PubSubPlain} {
		t.Run(fmt.Sprint("messages=", mode), func(t *testing.T) {
			t.Parallel()
			const slot = 5
			cluster := redistest.StartCluster(t, 2, 0, 15*time.Second)
			l := newMoving(t, cluster, mode, slot)
			for i := range locktest.Scaled(20, 4) {
				from, to := cluster.Masters[i%2], cluster.Masters[(i+1)%2]
				cluster.Move(slot, from, to, func() { <-time.After(20 * time.Millisecond) })
				l.awaitProgress(t)
			}
			l.end()
			slices.Sort(l.waits)
			t.Logf("held %d times; waited %v (median), %v at most", len(l.waits), l.waits[len(l.waits)/2], l.waits[len(l.waits)-1])
			for kind, spans := range l.spans {
				assert.Empty(t, spans.Overlaps(), kind)
			}
			assert.Empty(t, l.errors)
			assert.Less(t, l.waits[len(l.waits)-1], servedWithin)
			for _, master := range cluster.Masters {
				client := master.Client(t)
				locktest.Await(t, "nothing to be left", func() bool { return len(locktest.Keys(t, client)) == 0 })
			}
		})
	}
}

// moving is load on locks of all kinds in one slot.
type moving struct {
	ended chan struct{}
	group sync.WaitGroup
	spans map[string]*locktest.Spans

	mu     sync.Mutex
	waits  []time.Duration
	errors []string
	served map[string]int
}

func newMoving(t *testing.T, cluster *redistest.Cluster, mode holdfast.PubSubMode, slot int) *moving {
	l := &moving{ended: make(chan struct{}), spans: map[string]*locktest.Spans{}, served: map[string]int{}}
	var runtimes []*holdfast.Runtime
	for range 2 {
		runtimes = append(runtimes, locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{PubSub: mode}))
	}
	for _, kind := range locktest.Kinds {
		name := nameIn(t, slot)
		spans := &locktest.Spans{}
		l.spans[kind.Name] = spans
		for i := range 4 {
			lock := kind.Lock(runtimes[i%2], name)
			l.group.Go(func() { l.work(lock, fmt.Sprint(kind.Name, " ", i), spans) })
		}
	}
	t.Cleanup(l.end)
	return l
}

func (l *moving) end() {
	select {
	case <-l.ended:
	default:
		close(l.ended)
	}
	l.group.Wait()
}

func (l *moving) work(lock *holdfast.Lock, who string, spans *locktest.Spans) {
	for {
		select {
		case <-l.ended:
			return
		case <-time.After(time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
		start := time.Now()
		lease, err := lock.Acquire(ctx)
		cancel()
		took := time.Since(start)
		if err == nil {
			spans.Hold(lease, time.Millisecond)
			err = lease.Release(context.Background())
		}
		l.mu.Lock()
		l.waits = append(l.waits, took)
		l.served[who]++
		if err != nil {
			l.errors = append(l.errors, who+": "+err.Error())
		}
		l.mu.Unlock()
	}
}

// awaitProgress returns when every worker has been served once more.
func (l *moving) awaitProgress(t *testing.T) {
	l.mu.Lock()
	before := map[string]int{}
	for who, n := range l.served {
		before[who] = n
	}
	l.mu.Unlock()
	locktest.Await(t, "every worker to be served again", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for who, n := range l.served {
			if n == before[who] {
				return false
			}
		}
		return len(l.served) == 4*len(locktest.Kinds)
	})
}

// TestFault_ManyLocksOverAllSlots holds and renews locks in many slots of a cluster. No lock is lost. One call of the renewal script can renew only
// locks in the same slot, so the runtime may need up to one call for each lock in each period.
func TestFault_ManyLocksOverAllSlots(t *testing.T) {
	t.Parallel()
	const period, lease = 2 * time.Second, 6 * time.Second
	cluster := redistest.StartCluster(t, 3, 0, 15*time.Second)
	rt := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{Lease: lease})
	leases := make([]*holdfast.Lease, locktest.Scaled(10_000, 500))
	slots := map[uint16]bool{}
	var group sync.WaitGroup
	begun := time.Now()
	for i := range leases {
		name := redistest.Name(t)
		slots[scripts.Slot(name)] = true
		group.Go(func() { leases[i], _ = rt.Lock(name).Acquire(t.Context()) })
	}
	group.Wait()
	before := scriptsOf(t, cluster)
	const periods = 3
	<-time.After(time.Until(begun.Add(periods*period + period/2)))
	ran := scriptsOf(t, cluster) - before
	t.Logf("%d locks in %d slots: %.0f renewal scripts in a period", len(leases), len(slots), float64(ran)/periods)
	for _, lease := range leases {
		require.NotNil(t, lease)
		assert.True(t, lease.Valid())
		assert.Greater(t, time.Until(lease.ExpiresAt()), period, "it was renewed")
	}
	assert.LessOrEqual(t, ran, int64((periods+1)*len(leases)), "at most one script for each lock in each period")
	for _, lease := range leases {
		group.Go(func() { assert.NoError(t, lease.Release(context.Background())) })
	}
	group.Wait()
}

func scriptsOf(t *testing.T, cluster *redistest.Cluster) (n int64) {
	for _, master := range cluster.Masters {
		n += master.CommandStats(t, "evalsha")["evalsha"]
	}
	return n
}

// TestFault_SilentMasterDelaysNobodyElse stops one master of a cluster. Calls for locks on the other masters take at most twice as long as before.
func TestFault_SilentMasterDelaysNobodyElse(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0, time.Minute)
	rt := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{})
	silent := nameIn(t, 1)
	var others []string
	for _, slot := range []int{6000, 7000, 12000, 16000} {
		others = append(others, nameIn(t, slot))
	}
	place := &locktest.Place{Addr: cluster.Masters[1].Addr()}
	measure := func() time.Duration {
		var waits []time.Duration
		for i := range locktest.Scaled(4_000, 400) {
			lock := rt.Lock(others[i%len(others)])
			start := time.Now()
			lease := locktest.Acquire(t, lock)
			waits = append(waits, time.Since(start))
			locktest.Release(t, lease)
		}
		slices.Sort(waits)
		return waits[len(waits)*99/100]
	}
	measure()
	stalls := locktest.WatchStalls(t, place)
	before := measure()
	cluster.Masters[0].Pause()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() { _, _ = rt.Lock(silent).Acquire(ctx) })
	}
	stalls.Take()
	during := measure()
	late := stalls.Take()
	cancel()
	cluster.Masters[0].Resume()
	group.Wait()
	t.Logf("99 of 100 are served within %v before, and %v while another master is silent; stalls up to %v", before, during, late)
	assert.Less(t, during, 2*before+5*late+locktest.Slack())
}
