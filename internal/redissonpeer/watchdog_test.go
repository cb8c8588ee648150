package redissonpeer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redissonpeer"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// shortLease is a short lease whose renewals still succeed on a busy machine: when a renewal is due, two thirds of the lease are left.
const shortLease = 1500 * time.Millisecond

func TestWatchdog_RenewsManyLocksByFewCalls(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	p := newPeer(t, server.Client(t), redissonpeer.Config{Watchdog: shortLease})
	const locks = 250
	for i := range locks {
		mustLock(t, p.RLock(fmt.Sprintf("lock%d", i), 1), 0)
	}
	start := time.Now()
	require.Eventually(t, func() bool { return time.Since(start) > shortLease+shortLease/3 },
		patience, 10*time.Millisecond)
	assert.Equal(t, int64(locks), client.DBSize(t.Context()).Val(), "all locks are still held after their lease")

	renewals := server.CommandStats(t, "eval")["eval"] - locks
	assert.LessOrEqual(t, renewals, int64(3*8), "250 locks need 3 calls, 3 times in each lease")
	assert.GreaterOrEqual(t, renewals, int64(3*3))
}

func TestWatchdog_RenewsOnlyWhatIsHeldAndWithoutLease(t *testing.T) {
	server := redistest.Shared(t)
	client := server.Client(t)
	p := newPeer(t, server.Client(t), redissonpeer.Config{Watchdog: 300 * time.Millisecond})
	lost, leased, released := redistest.Name(t), redistest.Name(t), redistest.Name(t)
	mustLock(t, p.RLock(lost, 1), 0)
	mustLock(t, p.RLock(leased, 1), 500*time.Millisecond)
	mustLock(t, p.RLock(released, 1), 0)
	mustLock(t, p.RLock(released, 1), 0)
	require.NoError(t, p.RLock(released, 1).Unlock(t.Context()))
	assert.Equal(t, 2, p.Watched(), "one hold is left")
	require.NoError(t, p.RLock(released, 1).Unlock(t.Context()))
	assert.Equal(t, 1, p.Watched())

	// The key is deleted and another owner takes the lock. The watchdog must drop our hold, and must not renew the other owner's lease.
	require.NoError(t, client.Del(t.Context(), lost).Err())
	require.NoError(t, client.HSet(t.Context(), lost, "someone", 1).Err())
	require.NoError(t, client.PExpire(t.Context(), lost, 500*time.Millisecond).Err())
	require.Eventually(t, func() bool { return p.Watched() == 0 }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return client.Exists(t.Context(), lost, leased).Val() == 0 },
		patience, time.Millisecond)
}

func TestWatchdog_ForceUnlockForgetsAllHolds(t *testing.T) {
	a, _, _, name := setup(t)
	mustLock(t, a.RLock(name, 1), 0)
	mustLock(t, a.RLock(name, 1), 0)
	_, err := a.RLock(name, 2).ForceUnlock(t.Context())
	require.NoError(t, err)
	assert.Zero(t, a.Watched())
}

func TestWatchdog_AcquireAfterCloseStartsNothing(t *testing.T) {
	a, _, _, name := setup(t)
	a.Close()
	mustLock(t, a.RLock(name, 1), 0) // starts no renewal loop: goleak would report it
}
