package scripts_test

import (
	"encoding/hex"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

func (b bed) out() string { return "{" + b.name + "}:timeout" }

// expiry returns the time until a permit expires, or 0 if the permit is not held.
func (b bed) expiry(id string) time.Duration {
	b.Helper()
	raw, err := hex.DecodeString(id)
	require.NoError(b, err)
	score, err := b.ZScore(b.Context(), b.out(), string(raw)).Result()
	if err != nil {
		require.ErrorIs(b, err, redis.Nil)
		return 0
	}
	return time.UnixMilli(int64(score)).Sub(b.Time(b.Context()).Val())
}

// put writes a permit that expires after the given time.
func (b bed) put(id string, in time.Duration) {
	b.Helper()
	raw, err := hex.DecodeString(id)
	require.NoError(b, err)
	at := b.Time(b.Context()).Val().Add(in).UnixMilli()
	require.NoError(b, b.ZAdd(b.Context(), b.out(), redis.Z{Score: float64(at), Member: string(raw)}).Err())
}

func permit(n int) string { return scripts.Permit.GrantID(us + ":" + strconv.Itoa(n)) }

// foreignPermit is the id of a permit of Redisson, which makes random ids.
const foreignPermit = "00112233445566778899aabbccddeeff"

func TestPermitAcquireAndRelease(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.SemaphoreChannel(b.name))
		assert.Equal(b, scripts.Acquired{NotSet: true, TTL: -time.Millisecond}, b.take(scripts.Permit, scripts.Terms{Grant: permit(1), Lease: time.Minute}), "there are none")
		require.Equal(b, int64(1), b.count(scripts.PermitsTrySet, us+":1", 2))
		for range 2 {
			assert.Equal(b, scripts.Acquired{Granted: true, Left: 1}, b.take(scripts.Permit, scripts.Terms{Grant: permit(1), Lease: time.Minute}), "a repeat counts once")
			assert.Equal(b, "1", b.key())
		}
		assert.InDelta(b, 70, b.expiry(permit(1)).Seconds(), 2, "ten seconds more than its lease")
		assert.True(b, b.take(scripts.Permit, scripts.Terms{Grant: permit(1), Lease: time.Second}).Granted)
		assert.InDelta(b, 70, b.expiry(permit(1)).Seconds(), 2, "a late copy shortens nothing")
		assert.True(b, b.take(scripts.Permit, scripts.Terms{Grant: permit(2), Lease: 5 * time.Second}).Granted)
		busy := b.take(scripts.Permit, scripts.Terms{Grant: permit(3), Lease: time.Minute})
		assert.False(b, busy.Granted)
		assert.InDelta(b, 15, busy.TTL.Seconds(), 2, "until the first one ends")

		assert.True(b, b.give(scripts.Permit, scripts.Terms{Grant: permit(1)}).Held)
		assert.False(b, b.give(scripts.Permit, scripts.Terms{Grant: permit(1)}).Held, "a repeat changes nothing")
		assert.Equal(b, "1", b.key())
		assert.Equal(b, []string{"2", "1"}, published(), "the numbers of free permits")
	})
}

func TestPermitAcquire_TakesExpiredOnesBack(t *testing.T) {
	on(t, func(b bed) {
		b.count(scripts.PermitsTrySet, us+":1", 0)
		published := b.listening(scripts.SemaphoreChannel(b.name))
		b.put(permit(1), time.Minute)
		b.put(foreignPermit, -5*time.Second) // written by a clock that may be wrong
		busy := b.take(scripts.Permit, scripts.Terms{Grant: permit(3), Lease: time.Minute})
		assert.False(b, busy.Granted)
		assert.InDelta(b, 5, busy.TTL.Seconds(), 1, "a waiter need not try before")
		b.put(permit(2), -time.Second)
		assert.True(b, b.take(scripts.Permit, scripts.Terms{Grant: permit(3), Lease: time.Minute}).Granted)
		b.put(foreignPermit, -11*time.Second)
		assert.Equal(b, int64(1), b.count(scripts.PermitsFree, us+":2"), "a read also takes expired permits back")
		assert.Equal(b, int64(2), b.count(scripts.PermitsOut, us+":3"))
		assert.Equal(b, int64(3), b.count(scripts.PermitsAll, us+":4"))
		assert.Equal(b, []string{"1", "1"}, published())

		b.put(permit(1), -time.Second)
		assert.False(b, b.give(scripts.Permit, scripts.Terms{Grant: permit(1)}).Held, "too late")
		assert.Equal(b, "2", b.key(), "the permit is counted once")
	})
}

func TestPermitRenew(t *testing.T) {
	on(t, func(b bed) {
		b.count(scripts.PermitsTrySet, us+":1", 2)
		b.take(scripts.Permit, scripts.Terms{Grant: permit(1), Lease: time.Second})
		assert.True(b, b.renew(scripts.Permit, permit(1), time.Minute))
		assert.InDelta(b, 70, b.expiry(permit(1)).Seconds(), 2)
		b.put(permit(1), -time.Second)
		assert.False(b, b.renew(scripts.Permit, permit(1), time.Minute), "it has expired")
		assert.False(b, b.renew(scripts.Permit, permit(2), time.Minute))
		assert.Zero(b, b.expiry(permit(2)), "nothing is created")
		require.NoError(b, b.Del(b.Context(), b.out()).Err())
		require.NoError(b, b.Set(b.Context(), b.out(), "text", 0).Err())
		assert.False(b, b.renew(scripts.Permit, permit(1), time.Minute), "another type")
	})
}

// A pass does not free a permit, so nobody is notified. A pass never revives a permit that has ended.
func TestPermitPass(t *testing.T) {
	on(t, func(b bed) {
		pass := func(from, to string, lease time.Duration) bool {
			reply, err := b.run(scripts.Permit.Pass(site, b.name, scripts.Terms{From: from, Grant: to, Lease: lease}))
			require.NoError(b, err)
			passed, err := scripts.ReadPassed(reply, to)
			require.NoError(b, err)
			return passed.Held
		}
		b.count(scripts.PermitsTrySet, us+":1", 1)
		require.NoError(b, b.Expire(b.Context(), b.name, time.Hour).Err())
		b.take(scripts.Permit, scripts.Terms{Grant: permit(1), Lease: time.Minute})
		published := b.listening(scripts.SemaphoreChannel(b.name))
		for range 2 {
			assert.True(b, pass(permit(1), permit(2), 5*time.Second), "a repeat finds the permit passed")
			assert.Zero(b, b.expiry(permit(1)))
			assert.InDelta(b, 15, b.expiry(permit(2)).Seconds(), 2, "its own lease, and ten seconds")
		}
		assert.True(b, pass(permit(1), permit(2), time.Second))
		assert.InDelta(b, 15, b.expiry(permit(2)).Seconds(), 2, "a late copy shortens nothing")
		assert.InDelta(b, 3600, b.PTTL(b.Context(), b.out()).Val().Seconds(), 1.5, "the permits keep the TTL of the semaphore")
		assert.False(b, pass(permit(1), permit(3), time.Minute), "the old permit has ended")
		b.put(permit(2), -time.Second)
		assert.False(b, pass(permit(2), permit(3), time.Minute), "it has expired")
		b.put(permit(2), time.Minute)
		b.count(scripts.PermitsSet, us+":2", 0)
		_, err := b.run(scripts.Permit.Pass(site, b.name, scripts.Terms{From: permit(2), Grant: permit(3), Lease: time.Minute}))
		assert.Equal(b, scripts.Rejected, scripts.Classify(err), "more are held than there are: %v", err)
		assert.Positive(b, b.expiry(permit(2)), "the permit still has to be released")
		assert.Equal(b, []string{"0"}, published(), "the new number")
	})
}

// A negative number is not published: Redisson's listener throws on it, and no waiter could take a permit anyway.
func TestPermitRelease_TellsNoNegativeNumber(t *testing.T) {
	on(t, func(b bed) {
		b.count(scripts.PermitsTrySet, us+":1", 2)
		for n := range 2 {
			b.take(scripts.Permit, scripts.Terms{Grant: permit(n), Lease: time.Minute})
		}
		b.count(scripts.PermitsSet, us+":2", 0)
		published := b.listening(scripts.SemaphoreChannel(b.name))
		for n := range 2 {
			assert.True(b, b.give(scripts.Permit, scripts.Terms{Grant: permit(n)}).Held)
		}
		assert.Equal(b, "0", b.key())
		assert.Equal(b, []string{"0"}, published())
	})
}

// If a user has set a TTL on a semaphore, its key of held permits gets the same TTL, as in Redisson. No operation removes this TTL.
func TestPermits_KeepATTL(t *testing.T) {
	on(t, func(b bed) {
		b.count(scripts.PermitsTrySet, us+":1", 2)
		require.NoError(b, b.Expire(b.Context(), b.name, time.Minute).Err())
		b.take(scripts.Permit, scripts.Terms{Grant: permit(1), Lease: time.Hour})
		b.count(scripts.PermitsAdd, us+":2", 5)
		b.count(scripts.PermitsSet, us+":3", 4)
		b.give(scripts.Permit, scripts.Terms{Grant: permit(2)})
		b.nearTTL(time.Minute)
		assert.InDelta(b, 60, b.PTTL(b.Context(), b.out()).Val().Seconds(), 1.5)
	})
}

func TestPermits_NumbersAreRepeatable(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.SemaphoreChannel(b.name))
		for range 2 {
			assert.Equal(b, int64(1), b.count(scripts.PermitsTrySet, us+":1", 3))
		}
		assert.Equal(b, int64(0), b.count(scripts.PermitsTrySet, us+":2", 9))
		b.take(scripts.Permit, scripts.Terms{Grant: permit(1), Lease: time.Minute})
		for range 2 {
			assert.Equal(b, int64(4), b.count(scripts.PermitsAdd, us+":3", 2))
			assert.Equal(b, int64(3), b.count(scripts.PermitsAdd, us+":4", -1))
			assert.Equal(b, int64(-1), b.count(scripts.PermitsSet, us+":5", 0), "one is out")
			assert.Equal(b, int64(0), b.count(scripts.PermitsRelease([]string{permit(1), foreignPermit}), us+":6"), "all or none")
			assert.Equal(b, int64(1), b.count(scripts.PermitsRelease([]string{permit(1)}), us+":7"))
			assert.Equal(b, int64(0), b.count(scripts.PermitsSet, us+":8", 0))
		}
		assert.Equal(b, []string{"3", "2", "0", "1"}, published(), "deltas, totals and numbers of permits, as Redisson publishes them")
		for range 2 {
			assert.Equal(b, int64(1), b.count(scripts.PermitsDeleteAll, us+":9"))
		}
		assert.Empty(b, b.key())
	})
}

// One call can release any number of permits. If one of them is not held, the call releases none.
func TestPermitsRelease_VeryMany(t *testing.T) {
	const many = 20_000
	t.Parallel()
	b := bed{redistest.Shared(t).Client(t), t, redistest.Name(t)}
	ids := make([]string, many)
	for i := range ids {
		ids[i] = permit(i)
	}
	assert.Equal(b, int64(1), b.count(scripts.PermitsTrySet, us+":1", 1))
	for chunk := range slices.Chunk(ids, 1000) {
		members := make([]redis.Z, len(chunk))
		for i, id := range chunk {
			raw, err := hex.DecodeString(id)
			require.NoError(b, err)
			members[i] = redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: string(raw)}
		}
		require.NoError(b, b.ZAdd(b.Context(), b.out(), members...).Err())
	}
	assert.Equal(b, int64(0), b.count(scripts.PermitsRelease(append(slices.Clone(ids), foreignPermit)), us+":2"), "one of the permits is not held")
	assert.Equal(b, int64(many), b.ZCard(b.Context(), b.out()).Val())
	for range 2 {
		assert.Equal(b, int64(many), b.count(scripts.PermitsRelease(ids), us+":3"))
		assert.Equal(b, strconv.Itoa(many+1), b.key())
	}
	assert.Zero(b, b.Exists(b.Context(), b.out()).Val())
}
