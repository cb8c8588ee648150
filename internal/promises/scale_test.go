package promises_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The scale tests count goroutines and heap of the whole process, so they do not run in parallel with other tests.

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func liveActors(rt *holdfast.Runtime) (count int) {
	for _, shard := range rt.System().ProcessRegistry.LocalPIDs.LocalPIDs {
		for id := range shard.Items() {
			if strings.HasPrefix(id, "holdfast-") {
				count++
			}
		}
	}
	return count
}

// 64 goroutines acquire and release a million names, each once. Idle lock actors are retired on the way, and nothing is lost.
func TestScale_MillionNames(t *testing.T) {
	names := locktest.Scaled(1_000_000, 0)
	server := redistest.Start(t)
	client := server.Client(t)
	rt, err := holdfast.New(client, holdfast.Options{})
	require.NoError(t, err)
	fixed, before := liveActors(rt), heap()

	var next atomic.Int64
	var most locktest.Most
	var group sync.WaitGroup
	began := time.Now()
	for range 64 {
		group.Go(func() {
			for i := next.Add(1); i <= int64(names); i = next.Add(1) {
				lease, err := rt.Lock(fmt.Sprintf("name-%d", i)).Acquire(t.Context())
				if !assert.NoError(t, err) || !assert.NoError(t, lease.Release(t.Context())) {
					return
				}
				if i%10_000 == 0 {
					most.Note(int64(liveActors(rt)))
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	require.Eventually(t, func() bool { return liveActors(rt) == fixed }, 20*time.Second, 20*time.Millisecond,
		"only the fixed actors are left")
	grown := heap() - before
	t.Logf("%d names in %v, at most %d actors alive, heap grown by %d kB", names, took.Round(time.Millisecond), most.Load(), grown>>10)
	assert.Less(t, grown, int64(64<<20))
	assert.Equal(t, map[string]int64{"hset": int64(names), "publish": int64(names)}, server.CommandStats(t, "hset", "publish"),
		"one acquire and one release each")
	assert.Less(t, server.CommandStats(t, "evalsha")["evalsha"], int64(names), "many acquires share one call")
	size, err := client.DBSize(t.Context()).Result()
	require.NoError(t, err)
	assert.Zero(t, size, "no key is left")
	require.NoError(t, rt.Close(t.Context()))
}

// 100 000 pending acquires of one lock do not need a goroutine each, and all are served.
func TestScale_PendingAcquires(t *testing.T) {
	waiters := locktest.Scaled(100_000, 0)
	client := redistest.Shared(t).Client(t)
	rt, err := holdfast.New(client, holdfast.Options{})
	require.NoError(t, err)
	lock := rt.Lock(redistest.Name(t))
	lease, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	goroutines, before := runtime.NumGoroutine(), heap()
	pending := make([]*holdfast.Pending, waiters)
	for i := range pending {
		pending[i] = lock.AcquireAsync(ctx)
	}
	state, err := lock.Inspect(ctx)
	require.NoError(t, err)
	assert.Equal(t, waiters, state.Waiting)
	more, each := runtime.NumGoroutine()-goroutines, (heap()-before)/int64(waiters)
	t.Logf("%d waiters: %d goroutines more, %d bytes each", waiters, more, each)
	assert.Less(t, more, 100)
	assert.Less(t, each, int64(2048))

	require.NoError(t, lease.Release(ctx))
	for i, p := range pending {
		lease, err := p.Lease()
		require.NoError(t, err, "waiter %d", i)
		require.NoError(t, lease.Release(ctx), "waiter %d", i)
	}
	require.NoError(t, rt.Close(ctx))
}

// 100 000 locks that are held and renewed do not need a goroutine each.
func TestScale_HeldLocks(t *testing.T) {
	locks := locktest.Scaled(100_000, 0)
	client := redistest.Start(t).Client(t)
	rt, err := holdfast.New(client, holdfast.Options{Lease: 6 * time.Second, Logger: locktest.Quiet()})
	require.NoError(t, err)
	goroutines, before := runtime.NumGoroutine(), heap()
	pending := make([]*holdfast.Pending, locks)
	for i := range pending {
		pending[i] = rt.Lock(fmt.Sprintf("name-%d", i)).AcquireAsync(t.Context())
	}
	leases := make([]*holdfast.Lease, locks)
	for i, p := range pending {
		leases[i], err = p.Lease()
		require.NoError(t, err)
		pending[i] = nil
	}
	last := leases[locks-1]
	first := last.ExpiresAt().Add(100 * time.Millisecond) // the same instant may be reported slightly differently
	locktest.Await(t, "a renewal", func() bool { return last.ExpiresAt().After(first) })
	more, each := runtime.NumGoroutine()-goroutines, (heap()-before)/int64(locks)
	runtime.KeepAlive(leases)
	t.Logf("%d locks: %d goroutines more, %d bytes each", locks, more, each)
	assert.Less(t, more, 100)
	require.NoError(t, rt.Close(t.Context()))
	size, err := client.DBSize(t.Context()).Result()
	require.NoError(t, err)
	assert.Zero(t, size, "no key is left")
}
