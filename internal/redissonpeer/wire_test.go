package redissonpeer_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redissonpeer"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// assertTTL checks that the TTL of a key was set to this value within the last five seconds.
func assertTTL(t *testing.T, client *redis.Client, key string, set time.Duration) {
	t.Helper()
	ttl := client.PTTL(t.Context(), key).Val()
	assert.LessOrEqual(t, ttl, set)
	assert.Greater(t, ttl, set-5*time.Second)
}

// listen subscribes to the lock's channel.
func listen(t *testing.T, client *redis.Client, name string) *redis.PubSub {
	subscription := client.Subscribe(t.Context(), redissonpeer.Channel(name))
	t.Cleanup(func() { _ = subscription.Close() })
	_, err := subscription.Receive(t.Context())
	require.NoError(t, err)
	return subscription
}

// messages returns the messages that were published since the call of listen.
func messages(t *testing.T, client *redis.Client, subscription *redis.PubSub, name string) []string {
	require.NoError(t, client.Publish(t.Context(), redissonpeer.Channel(name), "end").Err())
	var payloads []string
	for {
		message, err := subscription.ReceiveMessage(t.Context())
		require.NoError(t, err)
		if message.Payload == "end" {
			return payloads
		}
		payloads = append(payloads, message.Payload)
	}
}

func TestNames_AreRedissons(t *testing.T) {
	assert.Equal(t, "redisson_lock__channel:{orders}", redissonpeer.Channel("orders"))
	assert.Equal(t, "redisson_lock__channel:{eu}:orders", redissonpeer.Channel("{eu}:orders"))
	assert.Equal(t, "redisson_lock__channel:a{b", redissonpeer.Channel("a{b"))
	assert.Equal(t, "redisson_unlock_latch:{orders}:1f", redissonpeer.LatchKey("orders", "1f"))
	assert.Regexp(t, "^[0-9a-f]{32}$", redissonpeer.NewRequestID())
}

func TestRLock_OwnerIsUUIDAndThread(t *testing.T) {
	a, b, _, name := setup(t)
	assert.Regexp(t, "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", a.ID())
	assert.NotEqual(t, a.ID(), b.ID())
	assert.Equal(t, a.ID()+":-7", a.RLock(name, -7).Owner())
}

func TestTryLock_WritesOneFieldAndTheLease(t *testing.T) {
	a, b, client, name := setup(t)
	l := a.RLock(name, 57)
	mustLock(t, l, time.Minute)
	assert.Equal(t, map[string]string{l.Owner(): "1"}, client.HGetAll(t.Context(), name).Val())
	assertTTL(t, client, name, time.Minute)

	mustLock(t, l, 40*time.Second)
	assert.Equal(t, map[string]string{l.Owner(): "2"}, client.HGetAll(t.Context(), name).Val())
	assertTTL(t, client, name, 40*time.Second)

	for _, stranger := range []*redissonpeer.RLock{a.RLock(name, 58), b.RLock(name, 57)} {
		held, err := stranger.TryLock(t.Context(), time.Hour)
		require.NoError(t, err)
		assert.False(t, held)
	}
	assert.Equal(t, map[string]string{l.Owner(): "2"}, client.HGetAll(t.Context(), name).Val())
	assertTTL(t, client, name, 40*time.Second)
}

func TestTryLock_WithoutLeaseTakesTheWatchdogs(t *testing.T) {
	a, _, client, name := setup(t)
	mustLock(t, a.RLock(name, 1), 0)
	assertTTL(t, client, name, 30*time.Second)
}

func TestTryLock_OnAnotherTypeIsTheServersError(t *testing.T) {
	a, _, client, name := setup(t)
	require.NoError(t, client.Set(t.Context(), name, "text", time.Minute).Err())
	_, err := a.RLock(name, 1).TryLock(t.Context(), 0)
	assert.ErrorContains(t, err, "WRONGTYPE")
}

func TestUnlock_CountsDownThenDeletesAndPublishes(t *testing.T) {
	a, _, client, name := setup(t)
	subscription := listen(t, client, name)
	l := a.RLock(name, 1)
	mustLock(t, l, time.Minute)
	mustLock(t, l, time.Minute)
	require.NoError(t, client.PExpire(t.Context(), name, 20*time.Second).Err())

	require.NoError(t, l.Unlock(t.Context()))
	assert.Equal(t, map[string]string{l.Owner(): "1"}, client.HGetAll(t.Context(), name).Val())
	assertTTL(t, client, name, time.Minute)
	assert.Empty(t, messages(t, client, subscription, name))

	require.NoError(t, l.Unlock(t.Context()))
	assert.Zero(t, client.Exists(t.Context(), name).Val())
	assert.Equal(t, []string{"0"}, messages(t, client, subscription, name))
	assert.Empty(t, client.Keys(t.Context(), "*"+name+"*").Val(), "no latch stays behind")
}

func TestUnlock_WithoutHoldIsAnErrorAndChangesNothing(t *testing.T) {
	a, b, client, name := setup(t)
	subscription := listen(t, client, name)
	assert.ErrorIs(t, a.RLock(name, 1).Unlock(t.Context()), redissonpeer.ErrNotHeld)

	mustLock(t, a.RLock(name, 1), time.Minute)
	assert.ErrorIs(t, b.RLock(name, 1).Unlock(t.Context()), redissonpeer.ErrNotHeld)
	assert.Equal(t, map[string]string{a.RLock(name, 1).Owner(): "1"},
		client.HGetAll(t.Context(), name).Val())
	assert.Empty(t, messages(t, client, subscription, name))
	assert.Equal(t, []string{name}, client.Keys(t.Context(), "*"+name+"*").Val())
}

func TestRelease_RepeatedUnderOneIDIsDoneOnce(t *testing.T) {
	a, _, client, name := setup(t)
	subscription := listen(t, client, name)
	l := a.RLock(name, 1)
	mustLock(t, l, time.Minute)
	mustLock(t, l, time.Minute)

	for _, want := range []redissonpeer.Outcome{redissonpeer.StillHeld, redissonpeer.Freed} {
		requestID := redissonpeer.NewRequestID()
		for range 3 {
			outcome, err := l.Release(t.Context(), requestID)
			require.NoError(t, err)
			assert.Equal(t, want, outcome)
		}
		latch := redissonpeer.LatchKey(name, requestID)
		assert.Equal(t, map[redissonpeer.Outcome]string{
			redissonpeer.StillHeld: "0", redissonpeer.Freed: "1",
		}[want], client.Get(t.Context(), latch).Val())
		assertTTL(t, client, latch, 20*time.Second)
	}
	assert.Equal(t, []string{"0"}, messages(t, client, subscription, name))

	outcome, err := l.Release(t.Context(), redissonpeer.NewRequestID())
	require.NoError(t, err)
	assert.Equal(t, redissonpeer.NotHeld, outcome)
}

func TestForceUnlock_FreesAStrangersLockAndPublishes(t *testing.T) {
	a, b, client, name := setup(t)
	subscription := listen(t, client, name)
	mustLock(t, a.RLock(name, 1), 0)
	for _, want := range []bool{true, false} {
		existed, err := b.RLock(name, 1).ForceUnlock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, existed)
	}
	assert.Zero(t, client.Exists(t.Context(), name).Val())
	assert.Equal(t, []string{"0"}, messages(t, client, subscription, name))
}

func TestRLock_Inspection(t *testing.T) {
	a, b, _, name := setup(t)
	holder, stranger := a.RLock(name, 1), b.RLock(name, 1)
	assertSeen := func(l *redissonpeer.RLock, locked, held bool, count int64) {
		t.Helper()
		gotLocked, err := l.IsLocked(t.Context())
		require.NoError(t, err)
		gotHeld, err := l.IsHeld(t.Context())
		require.NoError(t, err)
		gotCount, err := l.HoldCount(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []any{locked, held, count}, []any{gotLocked, gotHeld, gotCount})
	}
	assertSeen(holder, false, false, 0)
	mustLock(t, holder, time.Minute)
	mustLock(t, holder, time.Minute)
	assertSeen(holder, true, true, 2)
	assertSeen(stranger, true, false, 0)
}

func TestPeer_WorksOverRESP2(t *testing.T) {
	server := redistest.Shared(t)
	options := server.Options()
	options.Protocol = 2
	client := redis.NewClient(options)
	defer client.Close()
	a := newPeer(t, client, redissonpeer.Config{})
	name := redistest.Name(t)
	mustLock(t, a.RLock(name, 1), time.Minute)
	result := lockLater(t.Context(), a.RLock(name, 2), time.Minute)
	requireWaiting(t, a, name, 1)
	require.NoError(t, a.RLock(name, 1).Unlock(t.Context()))
	require.NoError(t, <-result)
	assert.Equal(t, int64(1), a.Wakeups().ByMessage)
}
