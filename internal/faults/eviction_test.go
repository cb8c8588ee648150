package faults_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func evictedLease() time.Duration { return locktest.Unhurried(1200 * time.Millisecond) }

// evicting are the policies by which a full Redis evicts locks. The first three policies evict any key. The others evict only keys with a TTL, and
// every lock has a TTL.
var evicting = []string{
	"allkeys-lru", "allkeys-lfu", "allkeys-random",
	"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
}

// A full Redis evicts the keys of locks that are held. Runtime.Check warns of it. The holder learns of the loss within a third of its lease, or from
// its release if that comes first. The next holder's token is larger than the token of the lost lease.
func TestFault_LocksEvicted(t *testing.T) {
	t.Parallel()
	for _, policy := range evicting {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			places := locktest.OnOneServer(t, "--maxmemory-policy", policy)
			rt := places[0].Runtime(t, holdfast.Options{Lease: evictedLease()})
			assert.ErrorContains(t, rt.Check(t.Context()), "maxmemory-policy is "+policy)
			stalls := locktest.WatchStalls(t, &locktest.Place{Addr: redistest.Shared(t).Addr()})
			showEviction(t, places, rt, stalls)
		})
	}
}

// held has the leases of two locks of one kind.
type held struct {
	*locktest.Place
	told     *holdfast.Lease // the watchdog reports its loss
	released *holdfast.Lease // its release reports its loss
}

func showEviction(t *testing.T, places []*locktest.Place, rt *holdfast.Runtime, stalls *locktest.Stalls) {
	var all []held
	for _, p := range places {
		all = append(all, held{p, locktest.Acquire(t, p.Lock(rt)), locktest.Acquire(t, p.Kind.Lock(rt, p.Name+"-released"))})
	}
	var told []*holdfast.Lease
	for _, h := range all {
		told = append(told, h.told)
	}
	last := lastTold(t, told)
	stalls.Take()
	evictEverything(t, all)
	evicted := time.Now()

	for _, h := range all {
		assert.ErrorIs(t, h.released.Release(t.Context()), holdfast.ErrLeaseLost, h.Kind.Name)
	}
	assert.LessOrEqual(t, last().Sub(evicted), evictedLease()/3+stalls.Slack())
	for _, h := range all {
		assert.ErrorIs(t, h.told.Err(), holdfast.ErrLeaseLost, h.Kind.Name)
		assert.False(t, h.told.Valid())
		next := locktest.Acquire(t, h.Lock(rt))
		if h.told.Token() > 0 {
			assert.Greater(t, next.Token(), h.told.Token(), "even if the counter was evicted")
		}
		locktest.Release(t, next)
	}
}

// lastTold starts to watch the given leases. The returned function waits until all of them have ended, and returns the time at which the last one
// ended.
func lastTold(t *testing.T, leases []*holdfast.Lease) func() time.Time {
	told := make([]time.Time, len(leases))
	var all sync.WaitGroup
	for i, lease := range leases {
		all.Go(func() {
			select {
			case <-lease.Done():
			case <-time.After(locktest.Patience):
				assert.Fail(t, "the loss is not reported")
			}
			told[i] = time.Now()
		})
	}
	return func() time.Time {
		all.Wait()
		return slices.MaxFunc(told, time.Time.Compare)
	}
}

// evictEverything limits the server's memory to one byte until the server has evicted all locks.
func evictEverything(t *testing.T, all []held) {
	client := all[0].Redis
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	locktest.Await(t, "the eviction", func() bool {
		for _, h := range all {
			for _, lease := range []*holdfast.Lease{h.told, h.released} {
				if client.Exists(context.Background(), lease.Name()).Val() > 0 {
					return false
				}
			}
		}
		return true
	})
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
}

// Redis evicts, or somebody deletes, one of the two keys of a fair lock's queue. The lock's waiters join the queue again. The remaining content of
// the other key blocks no waiter.
func TestFault_HalfOfAQueueIsLost(t *testing.T) {
	t.Parallel()
	for _, half := range []string{"redisson_lock_timeout", "redisson_lock_queue"} {
		t.Run(half, func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t)
			name, client, options := redistest.Name(t), server.Client(t), holdfast.Options{Lease: evictedLease()}
			runtimes := []*holdfast.Runtime{
				locktest.NewRuntime(t, server.Client(t), options), locktest.NewRuntime(t, server.Client(t), options),
			}
			holder := locktest.Acquire(t, runtimes[0].FairLock(name))
			var waiters []*holdfast.Pending
			comes := func() {
				for _, rt := range runtimes {
					waiters = append(waiters, rt.FairLock(name).AcquireAsync(t.Context()))
				}
			}
			queued := func() bool {
				places := client.LRange(t.Context(), "redisson_lock_queue:{"+name+"}", 0, -1).Val()
				slices.Sort(places)
				scored := client.ZCard(t.Context(), "redisson_lock_timeout:{"+name+"}").Val()
				return len(slices.Compact(places)) == len(waiters) && int(scored) == len(waiters)
			}
			comes()
			comes()
			locktest.Await(t, "the waiters to queue", queued)
			require.NoError(t, client.Del(t.Context(), half+":{"+name+"}").Err())
			locktest.Await(t, "the waiters to queue again", queued)
			comes()
			locktest.Await(t, "others to queue behind them", queued)
			locktest.Release(t, holder)
			var serving sync.WaitGroup
			for _, w := range waiters { // they are served in any order
				serving.Go(func() {
					if lease, err := w.Lease(); assert.NoError(t, err) {
						assert.NoError(t, lease.Release(t.Context()))
					}
				})
			}
			served := make(chan struct{})
			go func() { serving.Wait(); close(served) }()
			locktest.Closed(t, "the waiters to be served", served)
		})
	}
}
