package scripts_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/embedded"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// The UUIDs of some runtimes.
const (
	us    = "0f8fad5b-d9cb-469f-a165-70867728950e"
	them  = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
	dead  = "9a7b3301-0bdd-4e6a-8ca4-60b1b9a0e8f1"
	stale = "e4eaaaf2-d142-11e1-b3e4-080027620cdd"
)

// bed is a server on which a test runs scripts, with a name that only this test uses.
type bed struct {
	redis.UniversalClient
	*testing.T
	name string
}

// on runs a test on a real server and on the embedded one, because scripts must behave the same on both.
func on(t *testing.T, test func(b bed)) {
	t.Parallel()
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel()
		test(bed{redistest.Shared(t).Client(t), t, redistest.Name(t)})
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		server, err := embedded.Start()
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, server.Close()) })
		test(bed{server.Client(), t, redistest.Name(t)})
	})
}

// site has the parameters of all calls in these tests.
var site = &scripts.Site{Runtime: us, Publish: "PUBLISH", Lease: 30 * time.Second, FairWait: 5 * time.Minute, Tokens: 100}

// run executes a call. The server refuses to run the script later than a minute from now.
func (b bed) run(call scripts.Call) (any, error) {
	b.Helper()
	if call.Bounded() {
		now, err := b.Time(b.Context()).Result()
		require.NoError(b, err)
		call.SetNotAfter(now.Add(time.Minute).UnixMilli())
	}
	return b.send(call)
}

func (b bed) send(call scripts.Call) (any, error) {
	b.Helper()
	require.NoError(b, b.ScriptLoad(b.Context(), call.Script.Source).Err())
	reply, err := b.Do(b.Context(), call.Command...).Result()
	if err == redis.Nil { //nolint:errorlint // the very value
		return nil, nil
	}
	return reply, err
}

func (b bed) acquire(grant string, lease time.Duration) scripts.Acquired {
	b.Helper()
	reply, err := b.run(scripts.Lock.Acquire(site, b.name, scripts.Terms{Grant: grant, Lease: lease}))
	require.NoError(b, err)
	acquired, err := scripts.ReadAcquired(reply, grant)
	require.NoError(b, err)
	return acquired
}

func (b bed) fields() map[string]string {
	b.Helper()
	fields, err := b.HGetAll(b.Context(), b.name).Result()
	require.NoError(b, err)
	return fields
}

func (b bed) ttl() time.Duration {
	b.Helper()
	ttl, err := b.PTTL(b.Context(), b.name).Result()
	require.NoError(b, err)
	return ttl
}

func (b bed) nearTTL(want time.Duration) {
	b.Helper()
	assert.InDelta(b, want.Seconds(), b.ttl().Seconds(), 1.5)
}

// counting tries to acquire a lock. If the lock is busy, the result contains the number of subscribers of the lock's channel.
func (b bed) counting(kind *scripts.Kind, grant string) scripts.Acquired {
	b.Helper()
	return b.take(kind, scripts.Terms{Grant: grant, Lease: time.Minute, Report: scripts.LockChannel(b.name)})
}

// If an acquire names the lock's channel and the lock is busy, the reply contains the number of subscribers of the channel.
func TestAcquire_CountsSubscribers(t *testing.T) {
	for _, kind := range []*scripts.Kind{scripts.Lock, scripts.FencedLock} {
		t.Run(string(kind.Name), func(t *testing.T) {
			on(t, func(b bed) {
				channel := scripts.LockChannel(b.name)
				assert.True(b, b.counting(kind, us+":1").Granted)
				for n := range 3 {
					busy := b.counting(kind, us+":2")
					assert.Equal(b, us+":1", busy.Holder)
					assert.Equal(b, n, busy.Subscribers)
					assert.Zero(b, busy.Place, "few subscribers choose their places themselves")
					b.listening(channel)
				}
				assert.Zero(b, b.Exists(b.Context(), scripts.CrowdKey(channel)).Val())
			})
		})
	}
}

func TestLockAcquire(t *testing.T) {
	on(t, func(b bed) {
		assert.True(b, b.acquire(us+":1", 10*time.Second).Granted)
		assert.Equal(b, map[string]string{us + ":1": "1"}, b.fields())
		b.nearTTL(10 * time.Second)

		busy := b.acquire(us+":2", time.Second)
		assert.False(b, busy.Granted)
		assert.Equal(b, us+":1", busy.Holder)
		assert.InDelta(b, 10, busy.TTL.Seconds(), 1.5)

		assert.True(b, b.acquire(us+":1", 20*time.Second).Granted, "a repeat is granted again")
		assert.Equal(b, map[string]string{us + ":1": "1"}, b.fields(), "and counts once")
		b.nearTTL(20 * time.Second)
		assert.True(b, b.acquire(us+":1", time.Second).Granted)
		b.nearTTL(20 * time.Second) // a delayed duplicate must not shorten a lease that was renewed meanwhile

		require.NoError(b, b.Persist(b.Context(), b.name).Err())
		assert.Negative(b, b.acquire(us+":2", time.Second).TTL, "a key without TTL")
	})
}

func TestLockAcquire_TooLateChangesNothing(t *testing.T) {
	on(t, func(b bed) {
		call := scripts.Lock.Acquire(site, b.name, scripts.Terms{Grant: us + ":1", Lease: time.Second})
		now, err := b.Time(b.Context()).Result()
		require.NoError(b, err)
		call.SetNotAfter(now.Add(-time.Second).UnixMilli())
		_, err = b.send(call)
		require.Error(b, err)
		assert.Equal(b, scripts.Refused, scripts.Classify(err))
		ms, late := scripts.LateBy(err)
		assert.True(b, late)
		assert.InDelta(b, now.UnixMilli(), ms, 5000, "the refusal contains the server's time")
		assert.Empty(b, b.fields())
	})
}

func TestLockAcquire_ForeignKeys(t *testing.T) {
	on(t, func(b bed) {
		require.NoError(b, b.HSet(b.Context(), b.name, "mode", "read", them+":1", 1).Err())
		_, err := b.run(scripts.Lock.Acquire(site, b.name, scripts.Terms{Grant: us + ":1", Lease: time.Second}))
		assert.ErrorContains(b, scripts.Explain(err), "read/write lock")
		assert.Equal(b, scripts.Rejected, scripts.Classify(err))

		require.NoError(b, b.Del(b.Context(), b.name).Err())
		require.NoError(b, b.HSet(b.Context(), b.name, "city", "Ulm", "id", 1).Err())
		_, err = b.run(scripts.Lock.ForceRelease(site, b.name))
		assert.ErrorContains(b, scripts.Explain(err), "no lock")
		reply, err := b.run(scripts.Lock.Inspect(b.name))
		require.NoError(b, err)
		_, err = scripts.ReadInspected(reply)
		assert.ErrorIs(b, err, protocol.ErrForeignKey)
		assert.ErrorContains(b, err, `"city"`)
		assert.Equal(b, "Ulm", b.fields()["city"], "nothing was touched")

		require.NoError(b, b.Set(b.Context(), b.name, "text", 0).Err())
		for _, call := range []scripts.Call{
			scripts.Lock.Acquire(site, b.name, scripts.Terms{Grant: us + ":1", Lease: time.Second}),
			scripts.Lock.Release(site, b.name, scripts.Terms{Grant: us + ":1"}),
			scripts.Lock.Pass(site, b.name, scripts.Terms{From: us + ":1", Grant: us + ":2", Lease: time.Second}),
			scripts.Lock.Inspect(b.name),
			scripts.Lock.ForceRelease(site, b.name),
		} {
			_, err := b.run(call)
			assert.Equal(b, scripts.Rejected, scripts.Classify(err), call.Script.Name)
			assert.ErrorContains(b, scripts.Explain(err), "something else", call.Script.Name)
		}
		assert.Equal(b, "text", b.Get(b.Context(), b.name).Val(), "nothing was touched")
	})
}

func TestLockRelease(t *testing.T) {
	on(t, func(b bed) {
		pubsub := b.Subscribe(b.Context(), scripts.LockChannel(b.name))
		b.Cleanup(func() { _ = pubsub.Close() })
		_, err := pubsub.Receive(b.Context())
		require.NoError(b, err)

		b.acquire(us+":1", time.Minute)
		assert.Equal(b, []any{0, false}, b.release(us+":2"), "another grant")
		assert.Equal(b, []any{1, true}, b.release(us+":1"))
		assert.Equal(b, []any{0, false}, b.release(us+":1"), "a repeat changes nothing")
		assert.Empty(b, b.fields())

		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
		defer cancel()
		message, err := pubsub.ReceiveMessage(ctx)
		require.NoError(b, err)
		assert.Equal(b, "0", message.Payload)
	})
}

// A release with Keep gives the lock a new TTL and wakes its waiters. A retry changes nothing. Until the TTL ends, no grant gets the lock, but
// the lock can still be released.
func TestRelease_KeepsTheLock(t *testing.T) {
	for _, kind := range []*scripts.Kind{scripts.Lock, scripts.FencedLock, scripts.FairLock, scripts.WriteLock} {
		t.Run(string(kind.Name), func(t *testing.T) {
			on(t, func(b bed) {
				grant, other := kind.GrantID(us+":1"), kind.GrantID(us+":2")
				pubsub := b.Subscribe(b.Context(), kind.Channel(b.name, us+":1"))
				if kind.Others != nil {
					pubsub = b.Subscribe(b.Context(), kind.Others(b.name))
				}
				b.Cleanup(func() { _ = pubsub.Close() })
				_, err := pubsub.Receive(b.Context())
				require.NoError(b, err)
				keep := func(grant string, d time.Duration) scripts.Released {
					reply, err := b.run(kind.Release(site, b.name, scripts.Terms{Grant: grant, Keep: d}))
					require.NoError(b, err)
					released, err := scripts.ReadReleased(reply)
					require.NoError(b, err)
					return released
				}
				assert.False(b, keep(grant, time.Minute).Held, "a free lock is not taken")
				assert.True(b, b.take(kind, scripts.Terms{Grant: grant, Lease: time.Minute}).Granted)
				assert.False(b, keep(other, time.Minute).Held, "another grant")
				assert.Equal(b, scripts.Released{Held: true, Receivers: 1}, keep(grant, 20*time.Second))
				assert.False(b, keep(grant, time.Hour).Held, "a repeat changes nothing")
				for _, late := range []string{grant, other} { // including a delayed duplicate of the acquire
					assert.False(b, b.take(kind, scripts.Terms{Grant: late, Lease: time.Minute, Try: true}).Granted)
				}
				reply, err := b.run(kind.Renew(site, []string{b.name}, []string{grant}, time.Minute))
				require.NoError(b, err)
				gone, err := scripts.ReadRenewed(reply, []string{grant})
				require.NoError(b, err)
				assert.Len(b, gone, 1)
				assert.InDelta(b, 20*time.Second, b.PTTL(b.Context(), b.name).Val(), float64(time.Second))
				reply, err = b.run(kind.Inspect(b.name))
				require.NoError(b, err)
				state, err := scripts.ReadInspected(reply)
				require.NoError(b, err)
				assert.Equal(b, []protocol.Holder{{ID: scripts.Nobody(grant), Holds: 1}}, state.Holders)
				assert.True(b, keep(scripts.Nobody(grant), 0).Held)
				assert.Zero(b, b.Exists(b.Context(), b.name).Val())
			})
		})
	}
}

func (b bed) release(grant string) []any {
	b.Helper()
	reply, err := b.run(scripts.Lock.Release(site, b.name, scripts.Terms{Grant: grant}))
	require.NoError(b, err)
	released, err := scripts.ReadReleased(reply)
	require.NoError(b, err)
	return []any{released.Receivers, released.Held}
}

func TestLockPass(t *testing.T) {
	on(t, func(b bed) {
		pass := func(from, grant string, lease time.Duration) bool {
			reply, err := b.run(scripts.Lock.Pass(site, b.name, scripts.Terms{From: from, Grant: grant, Lease: lease}))
			require.NoError(b, err)
			passed, err := scripts.ReadPassed(reply, grant)
			require.NoError(b, err)
			return passed.Held
		}
		assert.False(b, pass(us+":1", us+":2", time.Minute), "without a lock to pass on, nothing is created")
		assert.Empty(b, b.fields())
		b.acquire(us+":1", 10*time.Second)
		assert.True(b, pass(us+":1", us+":2", time.Minute))
		assert.Equal(b, map[string]string{us + ":2": "1"}, b.fields())
		b.nearTTL(time.Minute)
		assert.True(b, pass(us+":1", us+":2", 2*time.Minute), "a repeat finds the lock passed")
		b.nearTTL(2 * time.Minute) // the caller measures the lease from the retry
		assert.True(b, pass(us+":1", us+":2", time.Second))
		b.nearTTL(2 * time.Minute) // a delayed duplicate does not shorten the lease
		assert.False(b, pass(us+":1", us+":3", time.Minute))
	})
}

func TestLockPass_AtTheEndOfATurn(t *testing.T) {
	on(t, func(b bed) {
		for _, kind := range []*scripts.Kind{scripts.Lock, scripts.FencedLock} {
			b.name += "-" + string(kind.Name)
			pass := func(from, grant string, own int) scripts.Passed {
				reply, err := b.run(kind.Pass(site, b.name, scripts.Terms{From: from, Grant: grant, Lease: time.Minute, TurnEnds: true, Idlers: own}))
				require.NoError(b, err)
				passed, err := scripts.ReadPassed(reply, grant)
				require.NoError(b, err)
				return passed
			}
			b.take(kind, scripts.Terms{Grant: us + ":1", Lease: time.Second})
			assert.True(b, pass(us+":1", us+":2", 0).Held, "nobody listens")
			assert.Equal(b, map[string]string{us + ":2": "1"}, b.fields())
			b.nearTTL(time.Minute)

			pubsub := b.Subscribe(b.Context(), scripts.LockChannel(b.name))
			_, err := pubsub.Receive(b.Context())
			require.NoError(b, err)
			assert.True(b, pass(us+":1", us+":2", 0).Held, "a repeat finds the lock passed, and notifies nobody again")
			assert.True(b, pass(us+":2", us+":3", 1).Held, "this process is the only subscriber")
			assert.Equal(b, scripts.Passed{}, pass(us+":2", us+":4", 0), "another grant has the lock")
			passed := pass(us+":3", us+":4", 0)
			assert.Equal(b, scripts.Passed{Receivers: 1}, passed, "there is another subscriber")
			assert.Empty(b, b.fields())
			assert.Equal(b, scripts.Passed{}, pass(us+":3", us+":4", 0), "a repeat finds the lock free")
			assert.Empty(b, b.fields())

			ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
			for range 2 {
				message, err := pubsub.ReceiveMessage(ctx)
				require.NoError(b, err)
				assert.Equal(b, "0", message.Payload)
			}
			cancel()
			require.NoError(b, pubsub.Close())
		}
	})
}

func TestLockRenew(t *testing.T) {
	on(t, func(b bed) {
		names := []string{b.name + "-a", b.name + "-b", b.name + "-c", b.name + "-d"}
		for i, name := range names[:3] {
			reply, err := b.run(scripts.Lock.Acquire(site, name, scripts.Terms{Grant: []string{us + ":0", us + ":1", "other"}[i], Lease: 5 * time.Second}))
			require.NoError(b, err)
			require.Equal(b, []string{us + ":0", us + ":1", "other"}[i], reply)
		}
		require.NoError(b, b.Set(b.Context(), b.name+"-e", "text", 0).Err())
		names = append(names, b.name+"-e")
		grants := []string{us + ":0", us + ":1", us + ":2", us + ":3", us + ":4"}
		reply, err := b.run(scripts.Lock.Renew(site, names, grants, time.Minute))
		require.NoError(b, err)
		gone, err := scripts.ReadRenewed(reply, grants)
		require.NoError(b, err)
		assert.Equal(b, []int{2, 3, 4}, gone, "a lock of another grant, no lock, a key of another type")
		assert.InDelta(b, 60, b.PTTL(b.Context(), names[0]).Val().Seconds(), 1.5)
		assert.InDelta(b, 60, b.PTTL(b.Context(), names[1]).Val().Seconds(), 1.5)
		assert.InDelta(b, 5, b.PTTL(b.Context(), names[2]).Val().Seconds(), 1.5)
		assert.Zero(b, b.Exists(b.Context(), names[3]).Val(), "nothing is created")
	})
}

func TestLockInspectAndForceRelease(t *testing.T) {
	on(t, func(b bed) {
		inspect := func() (held bool, holders int, mode string) {
			reply, err := b.run(scripts.Lock.Inspect(b.name))
			require.NoError(b, err)
			state, err := scripts.ReadInspected(reply)
			require.NoError(b, err)
			if state.Held {
				assert.InDelta(b, 60, state.TTL.Seconds(), 1.5)
			}
			return state.Held, len(state.Holders), state.Mode
		}
		force := func() []string {
			reply, err := b.run(scripts.Lock.ForceRelease(site, b.name))
			require.NoError(b, err)
			freed, err := scripts.ReadFreed(reply)
			require.NoError(b, err)
			return freed
		}
		held, _, mode := inspect()
		assert.False(b, held)
		assert.Empty(b, mode)
		assert.Empty(b, force())
		b.acquire(us+":1", time.Minute)
		held, holders, mode := inspect()
		assert.True(b, held)
		assert.Equal(b, 1, holders)
		assert.Equal(b, "exclusive", mode)
		assert.Equal(b, []string{us + ":1"}, force())
		assert.Empty(b, b.fields())
	})
}

func TestRead_UnexpectedReplies(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{"text", []any{"x"}, []any{int64(1), int64(2), int64(3)}, map[any]any{}, 1.5} {
		_, err := scripts.ReadAcquired(reply, us+":1")
		assert.ErrorContains(t, err, "unexpected reply")
		_, err = scripts.ReadReleased(reply)
		assert.ErrorContains(t, err, "unexpected reply")
		_, err = scripts.ReadPassed(reply, us+":1")
		assert.ErrorContains(t, err, "unexpected reply")
		_, err = scripts.ReadRenewed(reply, []string{us + ":1", us + ":2"})
		assert.ErrorContains(t, err, "unexpected reply")
		_, err = scripts.ReadInspected(reply)
		assert.ErrorContains(t, err, "unexpected reply")
	}
	for _, reply := range []any{"text", int64(1), []any{}, []any{"mode"}, []any{"u:1", int64(2)}, 1.5} {
		_, err := scripts.ReadFreed(reply)
		assert.ErrorContains(t, err, "unexpected reply")
	}
}
