package faults_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// TestFault_ReleaseInAGapIsHeard is about gaps. When a process has held a lock for a second, it leaves the lock free for others for 25 ms after the
// release. Within such a gap, another process takes the lock. The first process tries for the lock in vain, and then waits for it. The release by the
// other process, also within the gap, wakes the first one.
func TestFault_ReleaseInAGapIsHeard(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Kinds {
		if kind.Deaf {
			continue // its waiters hear no release
		}
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { showGap(t, kind) })
		})
	}
}

func showGap(t *testing.T, kind locktest.Kind) {
	const gap, soon = 25 * time.Millisecond, 50 * time.Millisecond
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	own, other := kind.Lock(bubbleRuntime(t, server), "orders"), kind.Lock(bubbleRuntime(t, server), "orders")
	rounds := locktest.Scaled(1000, 50)
	step := gap / time.Duration(rounds)
	worst := time.Duration(0)
	for round := range rounds {
		lease := locktest.Acquire(t, own)
		<-time.After(1100 * time.Millisecond)
		locktest.Release(t, lease) // the gap begins
		taken, err := other.TryAcquire(t.Context())
		require.NoError(t, err)
		tried := make(chan error)
		go func() {
			_, err := own.TryAcquire(t.Context())
			tried <- err
		}()
		synctest.Wait() // the try is in flight
		waiter := own.AcquireAsync(t.Context())
		<-time.After(2*trip + time.Duration(round)*step)
		locktest.Release(t, taken)
		freed := time.Now()
		require.ErrorIs(t, <-tried, holdfast.ErrNotAcquired)
		lease, err = waiter.Lease()
		require.NoError(t, err)
		worst = max(worst, time.Since(freed))
		locktest.Release(t, lease)
	}
	t.Logf("waited %v at most for a lock that was free", worst)
	assert.Less(t, worst, soon)
}
