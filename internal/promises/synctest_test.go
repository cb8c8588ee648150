package promises_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// In these tests the whole runtime runs inside a synctest bubble.

func TestSynctest_TenMinutesOfRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		rt := server.Runtime()
		other := server.Runtime()
		lease, err := rt.Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		began := time.Now()
		waiter := other.Lock("orders").AcquireAsync(t.Context())
		for time.Since(began) < 10*time.Minute {
			<-time.After(time.Minute)
			require.True(t, lease.Valid())
			require.Greater(t, server.Client().PTTL(t.Context(), "orders").Val(), 15*time.Second)
		}
		require.NoError(t, lease.Release(t.Context()))
		freed := time.Now()
		next, err := waiter.Lease()
		require.NoError(t, err)
		assert.Less(t, time.Since(freed), 100*time.Millisecond, "woken by the message, not by the poll")
		require.NoError(t, next.Release(t.Context()))
	})
}

func TestSynctest_CutOffHolderKnowsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		rt := server.Runtime()
		other := server.Runtime()
		lease, err := rt.Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		work, cancel := lease.Context(t.Context())
		defer cancel()
		waiter := other.Lock("orders").AcquireAsync(t.Context())
		<-time.After(25 * time.Second)
		server.Cut(rt)
		deadline := lease.ExpiresAt()
		<-lease.Done()
		assert.InDelta(t, 0, time.Until(deadline).Seconds(), 0.001, "Done is closed at the deadline")
		require.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
		require.ErrorIs(t, context.Cause(work), holdfast.ErrLeaseLost)
		assert.Equal(t, int64(1), server.Client().Exists(t.Context(), "orders").Val(), "before the server lets it expire")
		select {
		case <-waiter.Done():
			t.Fatal("granted to another before the holder's Done was closed")
		default:
		}
		next, err := waiter.Lease()
		require.NoError(t, err)
		assert.Less(t, time.Since(deadline), 2*time.Second)
		require.NoError(t, next.Release(t.Context()))
	})
}

// An idle runtime sends no commands. The test watches it for a day, which passes at once, because time in a bubble jumps to the next timer.
func TestSynctest_IdleRuntimeSleeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := locktest.NewBubble(t)
		rt := server.Runtime(t, &locktest.Pipes{}, holdfast.Options{})
		lease, err := rt.Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		<-time.After(time.Minute) // long enough to retire the lock's actor
		before := server.CommandCount()
		<-time.After(24 * time.Hour)
		assert.Equal(t, before, server.CommandCount(), "no command in a day")
	})
}
