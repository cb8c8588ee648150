package scripts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// take tries to acquire a lock of some kind.
func (b bed) take(kind *scripts.Kind, terms scripts.Terms) scripts.Acquired {
	b.Helper()
	reply, err := b.run(kind.Acquire(site, b.name, terms))
	require.NoError(b, err)
	acquired, err := scripts.ReadAcquired(reply, terms.Grant)
	require.NoError(b, err)
	return acquired
}

// give releases a lock of some kind, and returns the reply.
func (b bed) give(kind *scripts.Kind, terms scripts.Terms) scripts.Released {
	b.Helper()
	reply, err := b.run(kind.Release(site, b.name, terms))
	require.NoError(b, err)
	released, err := scripts.ReadReleased(reply)
	require.NoError(b, err)
	return released
}

// renew renews a lock, and returns whether this grant still holds it.
func (b bed) renew(kind *scripts.Kind, grant string, lease time.Duration) bool {
	b.Helper()
	reply, err := b.run(kind.Renew(site, []string{b.name}, []string{grant}, lease))
	require.NoError(b, err)
	gone, err := scripts.ReadRenewed(reply, []string{grant})
	require.NoError(b, err)
	return len(gone) == 0
}

func (b bed) timeoutTTL(grant string) time.Duration {
	b.Helper()
	ttl, err := b.PTTL(b.Context(), b.timeout(grant)).Result()
	require.NoError(b, err)
	return ttl
}

func (b bed) timeout(grant string) string { return "{" + b.name + "}:" + grant + ":rwlock_timeout:1" }

func TestReadAcquire(t *testing.T) {
	on(t, func(b bed) {
		assert.True(b, b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":1", Lease: 10 * time.Second}).Granted)
		assert.Equal(b, map[string]string{"mode": "read", us + ":1": "1"}, b.fields())
		b.nearTTL(10 * time.Second)
		assert.Equal(b, "1", b.Get(b.Context(), b.timeout(us+":1")).Val())
		assert.InDelta(b, 10, b.timeoutTTL(us+":1").Seconds(), 1.5)

		assert.True(b, b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":2", Lease: time.Second}).Granted)
		b.nearTTL(10 * time.Second) // the TTL is only raised
		assert.LessOrEqual(b, b.timeoutTTL(us+":2"), time.Second)
		assert.True(b, b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":3", Lease: time.Minute}).Granted)
		b.nearTTL(time.Minute)

		assert.True(b, b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":3", Lease: time.Second}).Granted, "a repeat is granted again")
		assert.Equal(b, map[string]string{"mode": "read", us + ":1": "1", us + ":2": "1", us + ":3": "1"}, b.fields(), "and counts once")
		assert.InDelta(b, 60, b.timeoutTTL(us+":3").Seconds(), 1.5, "a late copy shortens nothing")
		busy := b.take(scripts.WriteLock, scripts.Terms{Grant: us + ":4:write", Lease: time.Second})
		assert.False(b, busy.Granted)
		assert.Contains(b, busy.Holder, us+":")
		assert.InDelta(b, 60, busy.TTL.Seconds(), 1.5)
	})
}

func TestReadAcquire_BesideTheSameOwnersWriter(t *testing.T) {
	on(t, func(b bed) {
		b.take(scripts.WriteLock, scripts.Terms{Grant: us + ":1:write", Lease: time.Minute})
		busy := b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":2", Lease: time.Second})
		assert.Equal(b, []any{false, us + ":1:write"}, []any{busy.Granted, busy.Holder})
		assert.False(b, b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":2", Lease: time.Second, WriteGrant: us + ":3:write"}).Granted)
		assert.True(b, b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":1", Lease: time.Second, WriteGrant: us + ":1:write"}).Granted)
		assert.Equal(b, map[string]string{"mode": "write", us + ":1:write": "1", us + ":1": "1"}, b.fields())
		b.nearTTL(time.Minute)

		b.give(scripts.WriteLock, scripts.Terms{Grant: us + ":1:write"})
		assert.Equal(b, map[string]string{"mode": "read", us + ":1": "1"}, b.fields())
		assert.LessOrEqual(b, b.ttl(), time.Second, "the lock lasts only as long as the reader's lease")
		assert.True(b, b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":1", Lease: time.Minute, WriteGrant: us + ":1:write"}).Granted, "a repeat, later")
	})
}

func TestReadRelease(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.ReadWriteChannel(b.name))
		for grant, lease := range map[string]time.Duration{us + ":1": 10 * time.Second, us + ":2": time.Minute, us + ":3": 20 * time.Second} {
			b.take(scripts.ReadLock, scripts.Terms{Grant: grant, Lease: lease})
		}
		assert.False(b, b.give(scripts.ReadLock, scripts.Terms{Grant: us + ":9"}).Held, "another grant")
		assert.True(b, b.give(scripts.ReadLock, scripts.Terms{Grant: us + ":2"}).Held)
		assert.False(b, b.give(scripts.ReadLock, scripts.Terms{Grant: us + ":2"}).Held, "a repeat changes nothing")
		b.nearTTL(20 * time.Second) // the lease of the longest remaining reader
		assert.Zero(b, b.Exists(b.Context(), b.timeout(us+":2")).Val())
		assert.True(b, b.give(scripts.ReadLock, scripts.Terms{Grant: us + ":1"}).Held)
		assert.Empty(b, published(), "somebody reads")

		require.NoError(b, b.HSet(b.Context(), b.name, dead+":1", 2).Err()) // its timeout keys have expired
		assert.True(b, b.give(scripts.ReadLock, scripts.Terms{Grant: us + ":3"}).Held)
		assert.Empty(b, b.fields(), "the release of the last live reader also removes dead readers")
		assert.Equal(b, []string{"0"}, published())
	})
}

func TestReadRelease_LeavesTheSameOwnersWriter(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.ReadWriteChannel(b.name))
		b.take(scripts.WriteLock, scripts.Terms{Grant: us + ":1:write", Lease: time.Minute})
		b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":1", Lease: time.Second, WriteGrant: us + ":1:write"})
		assert.True(b, b.give(scripts.ReadLock, scripts.Terms{Grant: us + ":1"}).Held)
		assert.Equal(b, map[string]string{"mode": "write", us + ":1:write": "1"}, b.fields())
		b.nearTTL(time.Minute)
		assert.Empty(b, published())
		assert.True(b, b.give(scripts.WriteLock, scripts.Terms{Grant: us + ":1:write"}).Held)
		assert.False(b, b.give(scripts.WriteLock, scripts.Terms{Grant: us + ":1:write"}).Held)
		assert.Empty(b, b.fields())
		assert.Equal(b, []string{"1"}, published())
	})
}

func TestReadRenew(t *testing.T) {
	on(t, func(b bed) {
		b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":1", Lease: 5 * time.Second})
		b.take(scripts.ReadLock, scripts.Terms{Grant: them + ":1", Lease: 5 * time.Second})
		assert.True(b, b.renew(scripts.ReadLock, us+":1", time.Minute))
		assert.InDelta(b, 60, b.timeoutTTL(us+":1").Seconds(), 1.5)
		assert.InDelta(b, 5, b.timeoutTTL(them+":1").Seconds(), 1.5, "the renewal is for one reader only")
		b.nearTTL(time.Minute)
		b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":2", Lease: time.Hour})
		assert.True(b, b.renew(scripts.ReadLock, us+":1", 10*time.Second))
		b.nearTTL(time.Hour) // another reader has a longer lease
		assert.True(b, b.renew(scripts.ReadLock, us+":2", 20*time.Second))
		b.nearTTL(20 * time.Second) // the longest lease has become shorter

		assert.False(b, b.renew(scripts.ReadLock, us+":9", time.Minute))
		require.NoError(b, b.Del(b.Context(), b.timeout(us+":1")).Err())
		assert.False(b, b.renew(scripts.ReadLock, us+":1", time.Minute), "a reader whose timeout key has expired counts as dead")
		assert.Zero(b, b.Exists(b.Context(), b.timeout(us+":1"), b.timeout(us+":9")).Val(), "nothing is created")
		require.NoError(b, b.Del(b.Context(), b.name).Err())
		assert.False(b, b.renew(scripts.ReadLock, us+":2", time.Minute))
		assert.Empty(b, b.fields())
	})
}

func TestWriteAcquireAndRenew(t *testing.T) {
	on(t, func(b bed) {
		assert.True(b, b.take(scripts.WriteLock, scripts.Terms{Grant: us + ":1:write", Lease: 10 * time.Second}).Granted)
		assert.Equal(b, map[string]string{"mode": "write", us + ":1:write": "1"}, b.fields())
		b.nearTTL(10 * time.Second)
		busy := b.take(scripts.WriteLock, scripts.Terms{Grant: us + ":2:write", Lease: time.Minute})
		assert.Equal(b, []any{false, us + ":1:write"}, []any{busy.Granted, busy.Holder})
		assert.True(b, b.take(scripts.WriteLock, scripts.Terms{Grant: us + ":1:write", Lease: 20 * time.Second}).Granted)
		assert.Equal(b, map[string]string{"mode": "write", us + ":1:write": "1"}, b.fields(), "a repeat counts once")
		b.nearTTL(20 * time.Second) // leases are not added up
		assert.True(b, b.take(scripts.WriteLock, scripts.Terms{Grant: us + ":1:write", Lease: time.Second}).Granted)
		b.nearTTL(20 * time.Second)

		assert.True(b, b.renew(scripts.WriteLock, us+":1:write", time.Second))
		assert.LessOrEqual(b, b.ttl(), time.Second, "without readers, a writer may shorten its lease")
		assert.True(b, b.renew(scripts.WriteLock, us+":1:write", time.Minute))
		b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":1", Lease: time.Hour, WriteGrant: us + ":1:write"})
		assert.True(b, b.renew(scripts.WriteLock, us+":1:write", time.Minute))
		b.nearTTL(time.Hour) // the writer's owner also reads, with a longer lease, so the TTL is not lowered
		assert.False(b, b.renew(scripts.WriteLock, us+":2:write", time.Minute))
	})
}

func TestWritePass(t *testing.T) {
	on(t, func(b bed) {
		pass := func(from, grant string, lease time.Duration) bool {
			reply, err := b.run(scripts.WriteLock.Pass(site, b.name, scripts.Terms{From: from, Grant: grant, Lease: lease}))
			require.NoError(b, err)
			passed, err := scripts.ReadPassed(reply, grant)
			require.NoError(b, err)
			return passed.Held
		}
		assert.False(b, pass(us+":1:write", us+":2:write", time.Minute))
		assert.Empty(b, b.fields(), "nothing is created")
		b.take(scripts.WriteLock, scripts.Terms{Grant: us + ":1:write", Lease: 10 * time.Second})
		assert.True(b, pass(us+":1:write", us+":2:write", time.Minute))
		assert.Equal(b, map[string]string{"mode": "write", us + ":2:write": "1"}, b.fields())
		b.nearTTL(time.Minute)
		assert.True(b, pass(us+":1:write", us+":2:write", time.Second), "a repeat")
		b.nearTTL(time.Minute)
		b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":2", Lease: time.Minute, WriteGrant: us + ":2:write"})
		assert.False(b, pass(us+":2:write", us+":3:write", time.Minute), "the writer's owner also reads")
		assert.Len(b, b.fields(), 3)
	})
}

func TestReadWriteForceRelease(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.ReadWriteChannel(b.name))
		force := func(kind *scripts.Kind) []string {
			reply, err := b.run(kind.ForceRelease(site, b.name))
			require.NoError(b, err)
			freed, err := scripts.ReadFreed(reply)
			require.NoError(b, err)
			return freed
		}
		assert.Empty(b, append(force(scripts.ReadLock), force(scripts.WriteLock)...), "free")
		b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":1", Lease: time.Minute})
		b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":3", Lease: time.Minute})
		assert.Empty(b, force(scripts.WriteLock))
		assert.ElementsMatch(b, []string{us + ":1", us + ":3"}, force(scripts.ReadLock))
		assert.Empty(b, b.Keys(b.Context(), "*"+b.name+"*").Val(), "the timeout keys are deleted, too")
		b.take(scripts.WriteLock, scripts.Terms{Grant: us + ":2:write", Lease: time.Minute})
		assert.Empty(b, force(scripts.ReadLock))
		assert.Equal(b, []string{us + ":2:write"}, force(scripts.WriteLock))
		assert.Empty(b, b.fields())
		b.take(scripts.WriteLock, scripts.Terms{Grant: us + ":4:write", Lease: time.Minute})
		b.take(scripts.ReadLock, scripts.Terms{Grant: us + ":4", Lease: time.Minute, WriteGrant: us + ":4:write"})
		require.NoError(b, b.HIncrBy(b.Context(), b.name, us+":4", 1).Err(), "like a Redisson thread that enters twice")
		require.NoError(b, b.Set(b.Context(), strings.TrimSuffix(b.timeout(us+":4"), "1")+"2", 1, time.Minute).Err())
		assert.ElementsMatch(b, []string{us + ":4:write", us + ":4"}, force(scripts.WriteLock))
		assert.Empty(b, b.Keys(b.Context(), "*"+b.name+"*").Val(), "also the timeout keys of a writer that reads")
		assert.Equal(b, []string{"0", "1", "1"}, published(), "0 wakes one waiter, 1 wakes all")
	})
}

func TestReadWrite_ForeignKeysAndLateCalls(t *testing.T) {
	on(t, func(b bed) {
		calls := func() []scripts.Call {
			return []scripts.Call{
				scripts.ReadLock.Acquire(site, b.name, scripts.Terms{Grant: us + ":1", Lease: time.Second}),
				scripts.WriteLock.Acquire(site, b.name, scripts.Terms{Grant: us + ":1:write", Lease: time.Second}),
				scripts.ReadLock.ForceRelease(site, b.name), scripts.WriteLock.ForceRelease(site, b.name),
			}
		}
		now, err := b.Time(b.Context()).Result()
		require.NoError(b, err)
		for _, call := range calls() {
			call.SetNotAfter(now.Add(-time.Second).UnixMilli())
			_, err := b.send(call)
			_, late := scripts.LateBy(err)
			assert.True(b, late, call.Script.Name)
		}
		for _, set := range []func() error{
			func() error { return b.HSet(b.Context(), b.name, us+":9", 1).Err() },
			func() error { return b.Set(b.Context(), b.name, "text", 0).Err() },
		} {
			require.NoError(b, b.Del(b.Context(), b.name).Err())
			require.NoError(b, set())
			before := b.Dump(b.Context(), b.name).Val()
			for _, call := range calls() {
				_, err := b.run(call)
				assert.Equal(b, scripts.Rejected, scripts.Classify(err), call.Script.Name)
			}
			assert.False(b, b.renew(scripts.ReadLock, us+":1", time.Minute) || b.renew(scripts.WriteLock, us+":1:write", time.Minute))
			assert.Equal(b, before, b.Dump(b.Context(), b.name).Val(), "the key is not changed")
		}
	})
}

// A release by a reader compares the reader's lease with the TTL of the lock. If the TTL is longer, it comes from another reader's lease and does
// not change. If it is not longer, the release reads the leases of all other readers.
func TestReadRelease_LooksAtOthersWhenItWasTheLongest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := bed{server.Client(t), t, redistest.Name(t)}
	const readers = 50
	reader := func(i int) scripts.Terms {
		return scripts.Terms{Grant: fmt.Sprint(us, ":", i), Lease: time.Minute + time.Duration(i)*time.Second}
	}
	for i := range readers {
		require.True(t, b.take(scripts.ReadLock, reader(i)).Granted)
	}
	b.give(scripts.ReadLock, scripts.Terms{Grant: us + ":77"}) // loads the script
	looks := func(i int) int {
		before := server.CommandStats(t, "pttl")["pttl"]
		require.True(t, b.give(scripts.ReadLock, reader(i)).Held)
		return int(server.CommandStats(t, "pttl")["pttl"] - before)
	}
	for i := range readers - 3 {
		assert.LessOrEqual(t, looks(i), 2)
	}
	b.nearTTL(reader(readers - 1).Lease)
	assert.Greater(t, looks(readers-1), 2)
	b.nearTTL(reader(readers - 2).Lease)
	looks(readers - 3)
	assert.Equal(t, map[string]string{"mode": "read", us + ":48": "1"}, b.fields())
	looks(readers - 2)
	assert.Empty(t, b.fields())
}
