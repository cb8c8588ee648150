package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// In TestFault_ImpatientWaitersAreServed, sixteen goroutines of two processes request one lock 1 200 times in total. A call to Redis takes 1 ms, and
// each request gives up after 0 to 4 ms. Many requests are granted: some 50 with a fair lock, and more than 1 000 with any other. When a waiter of a
// fair lock gives up, the next waiter of its process takes over its place in the queue. Without this, the head of the queue would always be about to
// give up, and nobody would be served.
func TestFault_ImpatientWaitersAreServed(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := miniredis.NewMiniRedis()
				server.ClockTTL(true)
				t.Cleanup(server.Close)
				var served atomic.Int64
				var group sync.WaitGroup
				start := time.Now()
				for range 2 {
					lock := kind.Lock(bubbleRuntime(t, server), "orders")
					for i := range 8 {
						group.Go(func() { served.Add(comeAndGo(t, lock, uint64(i))) })
					}
				}
				group.Wait()
				t.Logf("%d served in %v", served.Load(), time.Since(start))
				assert.GreaterOrEqual(t, served.Load(), int64(25))
			})
		})
	}
}

// comeAndGo asks for a lock 75 times, with little patience. It returns how often it acquired the lock.
func comeAndGo(t *testing.T, lock *holdfast.Lock, seed uint64) (served int64) {
	random := rand.New(rand.NewPCG(1, seed))
	for range 75 {
		patience := time.Duration(random.Int64N(int64(4 * time.Millisecond)))
		lease, err := lock.Acquire(context.Background(), holdfast.WithWait(patience))
		if err != nil {
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
			continue
		}
		served++
		assert.NoError(t, lease.Release(context.Background()))
	}
	return served
}
