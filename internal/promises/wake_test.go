package promises_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
)

func TestPromise_ProgressWithoutNotifications(t *testing.T) {
	t.Parallel()
	for way, waiter := range map[string]func(t *testing.T, p *locktest.Place) *redis.Options{
		"connections killed": func(t *testing.T, p *locktest.Place) *redis.Options {
			killSubscribers(t, p)
			return &redis.Options{}
		},
		"messages lost": func(*testing.T, *locktest.Place) *redis.Options { return &redis.Options{Dialer: locktest.DialDeaf} },
		"no right to subscribe": func(t *testing.T, p *locktest.Place) *redis.Options {
			rules := []string{"on", "nopass", "allkeys", "allchannels", "+@all", "-subscribe"}
			require.NoError(t, p.Redis.ACLSetUser(t.Context(), "deaf", rules...).Err())
			return &redis.Options{Username: "deaf", Password: "any"}
		},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
				stalls := locktest.WatchStalls(t, p)
				holder := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
				options := waiter(t, p)
				options.Addr = p.Addr
				rt := locktest.NewRuntime(t, locktest.ClientWith(t, options), holdfast.Options{})
				pending := p.Lock(rt).AcquireAsync(t.Context())
				p.WaitForWaiting(t, rt, 1)
				locktest.Stays(t, "it waits", 100*time.Millisecond, func() bool { return p.Exists(t) })
				start := time.Now()
				locktest.Release(t, holder)
				lease, err := pending.Lease()
				took, late := time.Since(start), stalls.Take()

				require.NoError(t, err)
				locktest.Release(t, lease)
				assert.LessOrEqual(t, took, 1300*time.Millisecond+5*late+locktest.Slack(), "the fallback is a second and a quarter at most")
				if way != "connections killed" && !p.Kind.Deaf && late < 500*time.Millisecond {
					assert.Greater(t, took, 100*time.Millisecond, "a message came")
				}
			})
		})
	}
}

// killSubscribers breaks all pub/sub connections, again and again, until the test ends.
func killSubscribers(t *testing.T, p *locktest.Place) {
	client, ended := p.Client(t), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			client.ClientKillByFilter(ctx, "TYPE", "pubsub")
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

func TestPromise_RedissonSharesTheLock(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		for way, show := range map[string]func(t *testing.T, p *locktest.Place, peer *redissonpeer.Peer, rt *holdfast.Runtime){
			"both ways":       showRounds,
			"counts":          showPeersCounts,
			"repeated unlock": showLatch,
			"nobody else's":   showNotTheirs,
			"force unlock":    showForceUnlock,
			"watchdogs":       showBothWatchdogs,
		} {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				q := p.Another(t).Plain()
				show(t, q, locktest.NewPeer(t, q), q.Runtime(t, holdfast.Options{}))
			})
		}
	})
}

// showRounds passes the lock back and forth. Without messages, our side would wait for a second each time, and Redisson's for half a minute.
func showRounds(t *testing.T, p *locktest.Place, peer *redissonpeer.Peer, rt *holdfast.Runtime) {
	const rounds = 15
	theirs := p.Kind.Peer(peer, p.Name, 1)
	var ours []time.Duration
	for range rounds {
		require.NoError(t, theirs.Lock(t.Context(), 0))
		pending := p.Lock(rt).AcquireAsync(t.Context())
		p.WaitForWaiter(t, rt)
		locktest.Open(t, "our grant", pending.Done())
		start := time.Now()
		require.NoError(t, theirs.Unlock(t.Context()))
		lease, err := pending.Lease()
		require.NoError(t, err)
		ours = append(ours, time.Since(start))

		held, err := theirs.TryLock(t.Context(), 0)
		require.NoError(t, err)
		require.False(t, held)
		answer := make(chan error, 1)
		before := peer.Wakeups().ByMessage
		go func() { answer <- theirs.Lock(t.Context(), 0) }()
		locktest.AwaitBlocked(t, peer, 1)
		locktest.Release(t, lease)
		require.NoError(t, <-answer)
		require.LessOrEqual(t, peer.Wakeups().ByMessage, before+1)
		require.NoError(t, theirs.Unlock(t.Context()))
	}
	slices.Sort(ours)
	assert.Less(t, ours[rounds/2], 500*time.Millisecond, "woken by their messages")
	assert.Zero(t, peer.Wakeups().ByTTL, "woken by ours")
	assert.Zero(t, peer.Malformed(), "our messages are what Redisson reads")
}

func showPeersCounts(t *testing.T, p *locktest.Place, peer *redissonpeer.Peer, rt *holdfast.Runtime) {
	theirs := p.Kind.Peer(peer, p.Name, 7)
	for range 3 {
		require.NoError(t, theirs.Lock(t.Context(), 0))
	}
	for range 3 {
		_, err := p.Lock(rt).TryAcquire(t.Context())
		var busy *holdfast.BusyError
		require.ErrorAs(t, err, &busy)
		assert.Equal(t, theirs.Owner(), busy.Holder)
		state, err := p.Lock(rt).Inspect(t.Context())
		require.NoError(t, err)
		count, err := theirs.HoldCount(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []holdfast.Holder{{ID: theirs.Owner(), Holds: int(count)}}, state.Holders)
		require.NoError(t, theirs.Unlock(t.Context()))
	}
	locktest.Release(t, locktest.Acquire(t, p.Lock(rt)))
}

// showLatch repeats Redisson's request to unlock, as Redisson does after a lost reply. By then our lease holds the lock, and must keep
// it.
func showLatch(t *testing.T, p *locktest.Place, peer *redissonpeer.Peer, rt *holdfast.Runtime) {
	theirs, request := p.Kind.Peer(peer, p.Name, 1), redissonpeer.NewRequestID()
	require.NoError(t, theirs.Lock(t.Context(), time.Minute))
	outcome, err := theirs.Release(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, redissonpeer.Freed, outcome)
	lease := locktest.Acquire(t, p.Lock(rt))
	outcome, err = theirs.Release(t.Context(), request)
	require.NoError(t, err)
	assert.Equal(t, redissonpeer.Freed, outcome)
	assert.Equal(t, map[string]string{lease.ID(): "1"}, p.Fields(t))
	locktest.Release(t, lease)
}

func showNotTheirs(t *testing.T, p *locktest.Place, peer *redissonpeer.Peer, rt *holdfast.Runtime) {
	theirs, lease := p.Kind.Peer(peer, p.Name, 1), locktest.Acquire(t, p.Lock(rt))
	assert.ErrorIs(t, theirs.Unlock(t.Context()), redissonpeer.ErrNotHeld)
	locked, err := theirs.IsLocked(t.Context())
	require.NoError(t, err)
	assert.True(t, locked)
	assert.True(t, lease.Valid())
	locktest.Release(t, lease)
	require.NoError(t, theirs.Lock(t.Context(), 0))
	assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrNotHeld)
	held, err := theirs.IsHeld(t.Context())
	require.NoError(t, err)
	assert.True(t, held)
	require.NoError(t, theirs.Unlock(t.Context()))
}

func showForceUnlock(t *testing.T, p *locktest.Place, peer *redissonpeer.Peer, other *holdfast.Runtime) {
	rt := p.Runtime(t, holdfast.Options{Lease: locktest.Unhurried(600 * time.Millisecond)})
	lease := locktest.Acquire(t, p.Lock(rt))
	pending := p.Lock(rt).AcquireAsync(t.Context())
	existed, err := p.Kind.Peer(peer, p.Name, 1).ForceUnlock(t.Context())
	require.NoError(t, err)
	assert.True(t, existed)
	locktest.Closed(t, "Done", lease.Done())
	assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
	next, err := pending.Lease()
	require.NoError(t, err)
	locktest.Release(t, next)

	require.NoError(t, p.Kind.Peer(peer, p.Name, 1).Lock(t.Context(), 0))
	held, err := p.Lock(other).ForceRelease(t.Context())
	require.NoError(t, err)
	assert.True(t, held, "our ForceRelease also frees Redisson's lock")
	locktest.Release(t, locktest.Acquire(t, p.Lock(rt)))
}

// showBothWatchdogs lets Redisson's watchdog and ours renew leases at the same time.
func showBothWatchdogs(t *testing.T, p *locktest.Place, _ *redissonpeer.Peer, _ *holdfast.Runtime) {
	lease := locktest.Unhurried(900 * time.Millisecond)
	peer := locktest.NewPeerWith(t, p, redissonpeer.Config{Watchdog: lease})
	rt, q := p.Runtime(t, holdfast.Options{Lease: lease}), p.Another(t)
	theirs, ours := p.Kind.Peer(peer, p.Name, 1), locktest.Acquire(t, q.Lock(rt))
	require.NoError(t, theirs.Lock(t.Context(), 0))
	pending := p.Lock(rt).AcquireAsync(t.Context())
	locktest.Stays(t, "both are kept", 2*lease, func() bool { return ours.Valid() && p.Exists(t) && q.Exists(t) })
	locktest.Open(t, "our grant", pending.Done())
	require.NoError(t, theirs.Unlock(t.Context()))
	next, err := pending.Lease()
	require.NoError(t, err)
	locktest.Release(t, next)
	locktest.Release(t, ours)
}
