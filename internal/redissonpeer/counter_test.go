package redissonpeer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redissonpeer"
)

func TestSemaphore_Operations(t *testing.T) {
	a, _, client, name := setup(t)
	s, ctx := a.Semaphore(name), t.Context()
	pubsub := client.Subscribe(ctx, redissonpeer.SemaphoreChannel(name))
	t.Cleanup(func() { _ = pubsub.Close() })
	_, err := pubsub.Receive(ctx)
	require.NoError(t, err)
	is := func(want int64) {
		t.Helper()
		n, err := s.AvailablePermits(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, n)
	}
	yes := func(ok bool, err error) { t.Helper(); require.NoError(t, err); assert.True(t, ok) }
	no := func(ok bool, err error) { t.Helper(); require.NoError(t, err); assert.False(t, ok) }
	no(s.TryAcquire(ctx, 1))
	yes(s.TrySetPermits(ctx, 3))
	no(s.TrySetPermits(ctx, 4))
	yes(s.TryAcquire(ctx, 2))
	no(s.TryAcquire(ctx, 2))
	is(1)
	require.NoError(t, s.Release(ctx, 4))
	is(5)
	require.NoError(t, s.AddPermits(ctx, -7))
	is(-2)
	require.NoError(t, client.PExpire(ctx, name, time.Minute).Err())
	require.NoError(t, s.AddPermits(ctx, 5))
	assert.Equal(t, time.Duration(-1), client.PTTL(ctx, name).Val(), "AddPermits removes the TTL")
	n, err := s.DrainPermits(ctx)
	require.NoError(t, err)
	assert.Equal(t, int64(3), n)
	is(0)
	yes(s.Delete(ctx))
	no(s.Delete(ctx))
	for _, want := range []string{"3", "5", "-2", "3"} {
		message, err := pubsub.ReceiveMessage(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, message.Payload)
	}
}

func TestSemaphore_MessageWakesAsManyAsThereArePermits(t *testing.T) {
	a, b, client, name := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() { _ = b.Semaphore(name).Acquire(ctx, 1) })
	}
	waiting := func(n int64) func() bool {
		return func() bool { return b.WaitingOn(redissonpeer.SemaphoreChannel(name)) == n }
	}
	require.Eventually(t, waiting(3), patience, time.Millisecond)
	require.NoError(t, a.Semaphore(name).Release(t.Context(), 2))
	require.Eventually(t, waiting(1), patience, time.Millisecond)
	assert.Equal(t, redissonpeer.Wakeups{ByMessage: 2}, b.Wakeups())
	require.NoError(t, a.Semaphore(name).AddPermits(t.Context(), -3))
	require.Eventually(t, func() bool { return b.Malformed() == 1 }, patience, time.Millisecond, "Redisson throws on a negative message")
	require.NoError(t, client.Set(t.Context(), name, 5, 0).Err())
	assert.Equal(t, int64(2), b.Wakeups().ByMessage, "no message announces the permits, so the waiter keeps waiting")
	cancel()
	group.Wait()
}

func TestLatch_Operations(t *testing.T) {
	a, b, client, name := setup(t)
	l, ctx := a.Latch(name), t.Context()
	pubsub := client.Subscribe(ctx, redissonpeer.LatchChannel(name))
	t.Cleanup(func() { _ = pubsub.Close() })
	_, err := pubsub.Receive(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Await(ctx), "no count")
	require.NoError(t, l.CountDown(ctx))
	for _, want := range []bool{true, false} {
		set, err := l.TrySetCount(ctx, 2)
		require.NoError(t, err)
		assert.Equal(t, want, set)
	}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() { assert.NoError(t, b.Latch(name).Await(ctx)) })
	}
	require.Eventually(t, func() bool { return b.WaitingOn(redissonpeer.LatchChannel(name)) == 3 }, patience, time.Millisecond)
	require.NoError(t, l.CountDown(ctx))
	n, err := l.Count(ctx)
	require.NoError(t, err)
	assert.Equal(t, int64(1), n)
	require.NoError(t, l.CountDown(ctx))
	group.Wait()
	assert.Zero(t, client.Exists(ctx, name).Val())
	_, err = l.TrySetCount(ctx, 2)
	require.NoError(t, err)
	for _, want := range []bool{true, false} {
		deleted, err := l.Delete(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, deleted)
	}
	for _, want := range []string{"1", "0", "1", "1"} {
		message, err := pubsub.ReceiveMessage(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, message.Payload)
	}
	assert.Zero(t, b.Malformed())
}
