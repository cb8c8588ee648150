package promises_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// The module bench tests Options.Migrating with the real clients of other libraries.

// With Options.Migrating, an acquire waits while the lock's key holds a string. It gets the lock soon after the string is deleted or expires.
func TestMigrating_AcquireWaitsForAString(t *testing.T) {
	t.Parallel()
	for _, kind := range append(locktest.Kinds, locktest.Kind{
		Name: "read lock", Lock: func(rt *holdfast.Runtime, name string) *holdfast.Lock { return rt.RWLock(name).Read() },
	}) {
		for how, deleted := range map[string]bool{"deleted": true, "expired": false} {
			t.Run(kind.Name+" "+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					server := holdfasttest.New(t)
					lock := kind.Lock(server.Runtime(holdfast.Options{Migrating: true}), "orders")
					other := kind.Lock(server.Runtime(holdfast.Options{Migrating: true}), "orders")
					for range 5 {
						const length = 7777 * time.Millisecond
						require.NoError(t, server.Client().SetNX(t.Context(), "orders", "another library", length).Err())
						_, err := other.TryAcquire(t.Context())
						var busy *holdfast.BusyError
						require.ErrorAs(t, err, &busy)
						assert.Equal(t, length, busy.TTL)
						_, err = other.Acquire(t.Context(), holdfast.WithWait(time.Second))
						require.ErrorAs(t, err, &busy) // when a waiter gives up, its place in the queue must be removed
						assert.Greater(t, busy.TTL, length-2*time.Second)
						assert.LessOrEqual(t, busy.TTL, length-time.Second)

						waiting := lock.AcquireAsync(t.Context())
						<-time.After(length - 2*time.Second)
						synctest.Wait()
						freed := time.Now().Add(time.Second)
						if deleted {
							require.NoError(t, server.Client().Del(t.Context(), "orders").Err())
							freed = time.Now()
						}
						held, err := waiting.Lease()
						require.NoError(t, err)
						assert.LessOrEqual(t, time.Since(freed), 250*time.Millisecond+time.Millisecond)
						assert.GreaterOrEqual(t, time.Since(freed), time.Duration(0))
						require.NoError(t, held.Release(t.Context()))
					}
				})
			})
		}
	}
}

// Waiters keep their places in a fair lock's queue while another library holds the lock. A waiter that gives up leaves the queue.
func TestMigrating_FairQueueStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		options := holdfast.Options{Migrating: true, Lease: 3 * time.Second}
		one, other := server.Runtime(options).FairLock("orders"), server.Runtime(options).FairLock("orders")
		free := server.HeldElsewhere("orders")
		first := one.AcquireAsync(t.Context())
		synctest.Wait()
		second := other.AcquireAsync(t.Context())
		synctest.Wait()
		server.Lose("orders")
		require.NoError(t, server.Client().Set(t.Context(), "orders", "another library", time.Minute).Err())
		<-time.After(30 * time.Second)
		synctest.Wait()
		queue, err := server.Client().LLen(t.Context(), "redisson_lock_queue:{orders}").Result()
		require.NoError(t, err)
		assert.EqualValues(t, 2, queue)
		first.Cancel()
		_, err = first.Lease()
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		synctest.Wait()
		require.NoError(t, server.Client().Del(t.Context(), "orders").Err())
		freed := time.Now()
		held, err := second.Lease()
		require.NoError(t, err)
		assert.Less(t, time.Since(freed), 3*time.Second)
		require.NoError(t, held.Release(t.Context()))
		free()
	})
}
