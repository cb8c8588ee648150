package faults_test

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

// permitGrace is the time from the end of a permit's lease to the permit's expiry in Redis.
const permitGrace = 10 * time.Second

// TestFault_FailoverForgetsARelease fails over to a replica that did not get the last releases. A lock becomes free when its lease expires. A permit
// of a PermitSemaphore becomes free ten seconds after its lease. A permit of a Semaphore has no lease: it is missing until somebody calls
// AddPermits.
func TestFault_FailoverForgetsARelease(t *testing.T) {
	t.Parallel()
	g := redistest.StartGuarded(t, time.Second)
	ctx, name := t.Context(), redistest.Name(t)
	runtime := func() *holdfast.Runtime {
		return locktest.NewRuntime(t, g.Client(t), holdfast.Options{Lease: failoverLease})
	}
	first, second := runtime(), runtime()
	permits, counter := name+"-permits", name+"-counter"
	_, err := first.PermitSemaphore(permits).TrySetPermits(ctx, 1)
	require.NoError(t, err)
	_, err = first.Semaphore(counter).TrySetPermits(ctx, 2)
	require.NoError(t, err)
	lock, permit := locktest.Acquire(t, first.Lock(name)), locktest.AcquirePermit(t, first.PermitSemaphore(permits))
	require.NoError(t, first.Semaphore(counter).Acquire(ctx, 1))
	replica := g.Servers[1].Client(t)
	locktest.Await(t, "the replica to have everything", func() bool {
		return replica.Get(ctx, counter).Val() == "1" && replica.Exists(ctx, name).Val() == 1 && replica.Get(ctx, permits).Val() == "0"
	})
	require.NoError(t, replica.ReplicaOf(ctx, "127.0.0.1", "1").Err()) // no server there
	locktest.Release(t, lock)
	locktest.Release(t, permit)
	require.NoError(t, first.Semaphore(counter).Release(ctx, 1))
	g.FailOver()
	over := time.Now()

	locktest.Release(t, locktest.Acquire(t, second.Lock(name)))
	t.Logf("the lock was acquired %v after the failover", time.Since(over))
	assert.Less(t, time.Since(over), failoverLease+servedWithin)

	available, err := second.Semaphore(counter).Available(ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, available, "the lost permit is still missing")
	require.NoError(t, second.Semaphore(counter).AddPermits(ctx, 1))
	require.NoError(t, second.Semaphore(counter).TryAcquire(ctx, 2))

	showPermitComesBack(t, second.PermitSemaphore(permits), g.Client(t), over)
	g.Restore()
}

// showPermitComesBack waits until a permit whose release was forgotten can be acquired again. In short mode it does not wait: it only checks that
// the permit expires soon enough in Redis.
func showPermitComesBack(t *testing.T, s *holdfast.PermitSemaphore, client redis.UniversalClient, over time.Time) {
	if testing.Short() {
		ends := client.ZRangeWithScores(t.Context(), "{"+s.Name()+"}:timeout", 0, -1).Val()
		require.Len(t, ends, 1)
		assert.Less(t, time.Until(time.UnixMilli(int64(ends[0].Score))), failoverLease+permitGrace)
		return
	}
	locktest.Release(t, locktest.AcquirePermit(t, s))
	t.Logf("the permit was acquired %v after the failover", time.Since(over))
	assert.Less(t, time.Since(over), failoverLease+permitGrace+servedWithin)
}

// TestFault_LatchOverAFailover kills the master of a latch while a caller waits for the latch. Earlier count-downs are kept. The last count-down is
// made as soon as there is a new master. It opens the latch.
func TestFault_LatchOverAFailover(t *testing.T) {
	t.Parallel()
	for name, start := range fleets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, ctx, name := start(t), t.Context(), redistest.Name(t)
			runtime := func() *holdfast.Runtime { return locktest.NewRuntime(t, f.client(t), holdfast.Options{}) }
			counting, waiting := runtime().CountDownLatch(name), runtime().CountDownLatch(name)
			_, err := counting.TrySetCount(ctx, 2)
			require.NoError(t, err)
			opened := make(chan error, 1)
			go func() { opened <- waiting.Wait(ctx) }()
			require.NoError(t, counting.CountDown(ctx))
			master := f.master(name).Client(t)
			locktest.Await(t, "the replica to have it", func() bool { return master.Wait(ctx, 1, time.Second).Val() == 1 })

			counted := make(chan error, 1)
			f.failOver(name)
			over := time.Now()
			go func() { counted <- counting.CountDown(ctx) }()
			require.NoError(t, <-counted)
			require.NoError(t, <-opened)
			t.Logf("opened %v after the failover", time.Since(over))
			assert.Less(t, time.Since(over), servedWithin)
			f.restore()
		})
	}
}
