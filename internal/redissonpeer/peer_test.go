package redissonpeer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redissonpeer"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = 10 * time.Second

// newPeer returns a peer that is closed when the test ends.
func newPeer(t *testing.T, client redis.UniversalClient, config redissonpeer.Config) *redissonpeer.Peer {
	p := redissonpeer.New(client, config)
	t.Cleanup(p.Close)
	return p
}

// setup returns two peers and a client of the shared server, and the name of a lock.
func setup(t *testing.T) (a, b *redissonpeer.Peer, client *redis.Client, name string) {
	server := redistest.Shared(t)
	a = newPeer(t, server.Client(t), redissonpeer.Config{})
	b = newPeer(t, server.Client(t), redissonpeer.Config{})
	return a, b, server.Client(t), redistest.Name(t)
}

func mustLock(t *testing.T, l *redissonpeer.RLock, lease time.Duration) {
	t.Helper()
	held, err := l.TryLock(t.Context(), lease)
	require.NoError(t, err)
	require.True(t, held)
}

// lockLater calls Lock in the background and returns its result.
func lockLater(ctx context.Context, l *redissonpeer.RLock, lease time.Duration) <-chan error {
	result := make(chan error, 1)
	go func() { result <- l.Lock(ctx, lease) }()
	return result
}

func requireWaiting(t *testing.T, p *redissonpeer.Peer, name string, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return p.Waiting(name) == n }, patience, time.Millisecond)
}

// subscribers returns how many clients are subscribed to the lock's channel.
func subscribers(t *testing.T, client *redis.Client, name string) int64 {
	counts, err := client.PubSubNumSub(t.Context(), redissonpeer.Channel(name)).Result()
	require.NoError(t, err)
	return counts[redissonpeer.Channel(name)]
}

func TestRLock_TwoPeersExcludeEachOtherAndWakeByMessage(t *testing.T) {
	a, b, _, name := setup(t)
	const rounds = 200
	var wg sync.WaitGroup
	inside, count := 0, 0 // guarded by nothing but the lock
	for _, p := range []*redissonpeer.Peer{a, b} {
		wg.Go(func() {
			l := p.RLock(name, 1)
			for range rounds {
				if !assert.NoError(t, l.Lock(t.Context(), 0)) {
					return
				}
				inside++
				assert.Equal(t, 1, inside)
				count++
				inside--
				if !assert.NoError(t, l.Unlock(t.Context())) {
					return
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 2*rounds, count)

	wakeups := redissonpeer.Wakeups{
		ByMessage: a.Wakeups().ByMessage + b.Wakeups().ByMessage,
		ByTTL:     a.Wakeups().ByTTL + b.Wakeups().ByTTL,
	}
	assert.Positive(t, wakeups.ByMessage)
	assert.Zero(t, wakeups.ByTTL, "no message was lost")
}

func TestRLock_ThreadsOfOnePeerShareASubscription(t *testing.T) {
	a, b, client, name := setup(t)
	holder := a.RLock(name, 1)
	mustLock(t, holder, 0)
	var results []<-chan error
	for thread := range int64(3) {
		results = append(results, lockLater(t.Context(), b.RLock(name, thread), time.Minute))
	}
	requireWaiting(t, b, name, 3)
	assert.Equal(t, int64(1), subscribers(t, client, name))

	require.NoError(t, holder.Unlock(t.Context()))
	// Each waiter that gets the lock keeps it, so the test frees the lock by force for the next waiter.
	for range 3 {
		require.Eventually(t, func() bool {
			existed, err := holder.ForceUnlock(t.Context())
			return err == nil && existed
		}, patience, time.Millisecond)
	}
	for _, result := range results {
		require.NoError(t, <-result)
	}
	require.Eventually(t, func() bool { return subscribers(t, client, name) == 0 },
		patience, time.Millisecond, "the last waiter ends the subscription")
}

func TestRLock_WaiterThatGetsNoMessageWakesByTTL(t *testing.T) {
	a, b, client, name := setup(t)
	mustLock(t, a.RLock(name, 1), time.Second)
	result := lockLater(t.Context(), b.RLock(name, 1), time.Minute)
	requireWaiting(t, b, name, 1)
	require.NoError(t, client.Del(t.Context(), name).Err())

	require.NoError(t, <-result)
	assert.Zero(t, b.Wakeups().ByMessage)
	assert.Positive(t, b.Wakeups().ByTTL)
}

func TestRLock_ReadUnlockWakesAllAndUnlockOne(t *testing.T) {
	_, b, client, name := setup(t)
	require.NoError(t, client.HSet(t.Context(), name, "someone", 1).Err()) // without a TTL
	ctx, cancel := context.WithCancel(t.Context())
	var results []<-chan error
	for thread := range int64(3) {
		results = append(results, lockLater(ctx, b.RLock(name, thread), time.Minute))
	}
	for i, message := range []string{"1", "0"} {
		requireWaiting(t, b, name, 3)
		require.NoError(t, client.Publish(t.Context(), redissonpeer.Channel(name), message).Err())
		woken := int64(3 + i)
		require.Eventually(t, func() bool { return b.Wakeups().ByMessage == woken },
			patience, time.Millisecond)
	}
	requireWaiting(t, b, name, 3)
	cancel()
	for _, result := range results {
		assert.ErrorIs(t, <-result, context.Canceled)
	}
	assert.Zero(t, b.Wakeups().ByTTL)
}

func TestRLock_MalformedMessageIsCountedAndWakesNobody(t *testing.T) {
	a, b, client, name := setup(t)
	mustLock(t, a.RLock(name, 1), time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	result := lockLater(ctx, b.RLock(name, 1), time.Minute)
	requireWaiting(t, b, name, 1)
	require.NoError(t, client.Publish(t.Context(), redissonpeer.Channel(name), "unlocked").Err())
	require.Eventually(t, func() bool { return b.Malformed() == 1 }, patience, time.Millisecond)
	cancel()
	assert.ErrorIs(t, <-result, context.Canceled)
	assert.Equal(t, redissonpeer.Wakeups{}, b.Wakeups())
}

func TestRLock_ContextEndsTheWait(t *testing.T) {
	a, b, client, name := setup(t)
	mustLock(t, a.RLock(name, 1), time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, b.RLock(name, 1).Lock(ctx, 0), context.DeadlineExceeded)
	assert.ErrorIs(t, b.RLock(name, 1).Lock(ctx, 0), context.DeadlineExceeded, "nothing is sent")
	require.Eventually(t, func() bool { return subscribers(t, client, name) == 0 },
		patience, time.Millisecond)
}

func TestPeer_CloseEndsWaitsAndMayBeRepeated(t *testing.T) {
	a, b, _, name := setup(t)
	mustLock(t, a.RLock(name, 1), time.Minute)
	result := lockLater(t.Context(), b.RLock(name, 1), 0)
	requireWaiting(t, b, name, 1)
	b.Close()
	assert.ErrorIs(t, <-result, redissonpeer.ErrClosed)
	b.Close()
	assert.ErrorIs(t, b.RLock(name, 1).Lock(t.Context(), 0), redissonpeer.ErrClosed)
}

func TestPeer_CloseLeavesHeldLocksToTheirTTL(t *testing.T) {
	a, _, client, name := setup(t)
	mustLock(t, a.RLock(name, 1), 0)
	a.Close()
	assert.Equal(t, int64(1), client.Exists(t.Context(), name).Val())
}
