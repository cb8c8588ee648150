package redissonpeer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMultiLock_HoldsAllOrNone(t *testing.T) {
	t.Parallel()
	a, b, client, name := setup(t)
	names := []string{name + "-0", name + "-1", name + "-2"}
	ours := a.MultiLock(a.RLock(names[0], 1), a.RLock(names[1], 1), a.RLock(names[2], 1))
	mustLock(t, b.RLock(names[2], 7), time.Minute)
	for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
		held, err := ours.TryLock(t.Context(), wait, time.Minute)
		require.NoError(t, err)
		assert.False(t, held)
		assert.Equal(t, int64(1), client.Exists(t.Context(), names...).Val(), "nothing is left")
	}
	require.NoError(t, b.RLock(names[2], 7).Unlock(t.Context()))

	require.NoError(t, ours.Lock(t.Context(), time.Minute))
	held, err := ours.IsHeld(t.Context())
	require.NoError(t, err)
	assert.True(t, held)
	for _, name := range names {
		assert.InDelta(t, time.Minute.Seconds(), client.PTTL(t.Context(), name).Val().Seconds(), 5, "the lease, not the provisional one")
	}
	require.NoError(t, ours.Unlock(t.Context()))
	assert.Zero(t, client.Exists(t.Context(), names...).Val())
}

func TestRedLock_HoldsAMajority(t *testing.T) {
	t.Parallel()
	a, b, client, name := setup(t)
	names := []string{name + "-0", name + "-1", name + "-2"}
	ours := a.RedLock(a.RLock(names[0], 1), a.RLock(names[1], 1), a.RLock(names[2], 1))
	mustLock(t, b.RLock(names[0], 7), time.Minute)
	held, err := ours.TryLock(t.Context(), 500*time.Millisecond, time.Minute)
	require.NoError(t, err)
	assert.True(t, held)
	require.NoError(t, ours.Unlock(t.Context()))
	mustLock(t, b.RLock(names[1], 7), time.Minute)
	held, err = ours.TryLock(t.Context(), 500*time.Millisecond, time.Minute)
	require.NoError(t, err)
	assert.False(t, held)
	assert.Equal(t, int64(2), client.Exists(t.Context(), names...).Val(), "nothing is left")
}
