package scripts_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

func (b bed) queue() []string {
	b.Helper()
	queue, err := b.LRange(b.Context(), "redisson_lock_queue:{"+b.name+"}", 0, -1).Result()
	require.NoError(b, err)
	return queue
}

func (b bed) scores() string  { return "redisson_lock_timeout:{" + b.name + "}" }
func (b bed) waiting() string { return "holdfast_waiting:{" + b.name + "}" }

// keep is the time for which Redis keeps a waiter's place in the queue.
func (b bed) keep(grant string) time.Duration {
	b.Helper()
	score, err := b.ZScore(b.Context(), b.scores(), grant).Result()
	require.NoError(b, err)
	return time.UnixMilli(int64(score)).Sub(b.Time(b.Context()).Val())
}

func TestFairAcquire_QueuesInOrder(t *testing.T) {
	on(t, func(b bed) {
		first := scripts.Terms{Grant: us + ":1", Lease: 30 * time.Second}
		assert.True(b, b.take(scripts.FairLock, first).Granted)
		assert.True(b, b.take(scripts.FairLock, first).Granted, "a repeat counts once")
		assert.Equal(b, map[string]string{us + ":1": "1"}, b.fields())
		last := b.Time(b.Context()).Val().UnixMicro()
		for _, grant := range []string{us + ":2", them + ":1", us + ":3"} {
			busy := b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute})
			assert.Equal(b, []any{false, true, us + ":1"}, []any{busy.Granted, busy.Queued, busy.Holder})
			assert.GreaterOrEqual(b, busy.Joined, last)
			last = busy.Joined
		}
		again := b.take(scripts.FairLock, scripts.Terms{Grant: us + ":2", Lease: time.Minute})
		assert.Equal(b, []any{true, int64(0)}, []any{again.Queued, again.Joined}, "it was in the queue already")
		assert.False(b, b.take(scripts.FairLock, scripts.Terms{Grant: us + ":4", Lease: time.Minute, Try: true}).Queued)
		assert.Equal(b, []string{us + ":2", them + ":1", us + ":3"}, b.queue())
		for i, grant := range b.queue() {
			assert.InDelta(b, (30*time.Second + time.Duration(i+1)*5*time.Minute).Seconds(), b.keep(grant).Seconds(), 3, "Redisson's arithmetic")
		}

		require.NoError(b, b.Del(b.Context(), b.name).Err())
		assert.False(b, b.take(scripts.FairLock, scripts.Terms{Grant: us + ":3", Lease: time.Minute, Standing: true}).Granted, "not its turn")
		assert.True(b, b.take(scripts.FairLock, scripts.Terms{Grant: us + ":2", Lease: time.Minute, Standing: true}).Granted)
		assert.Equal(b, []string{them + ":1", us + ":3"}, b.queue())
		assert.InDelta(b, 330, b.keep(them+":1").Seconds(), 3, "the waiter behind moves up")
	})
}

// When a waiter tries again, the script notes in Redis that the waiter's runtime lives. If the last note is recent, the
// script writes no new one.
func TestFairAcquire_NotesThatItsRuntimeLives(t *testing.T) {
	on(t, func(b bed) {
		b.take(scripts.FairLock, scripts.Terms{Grant: us + ":1", Lease: time.Minute})
		kept := scripts.Terms{Grant: us + ":2", Lease: time.Minute}
		noted := func() time.Duration {
			ms, err := b.HGet(b.Context(), b.waiting(), us).Int64()
			require.NoError(b, err)
			return time.UnixMilli(ms).Sub(b.Time(b.Context()).Val())
		}
		b.take(scripts.FairLock, kept)
		assert.InDelta(b, site.Lease.Seconds(), noted().Seconds(), 2)
		kept.Standing = true
		for left, again := range map[time.Duration]bool{site.Lease / 2: true, site.Lease + time.Second: false} {
			before := strconv.FormatInt(b.Time(b.Context()).Val().Add(left).UnixMilli(), 10)
			require.NoError(b, b.HSet(b.Context(), b.waiting(), us, before).Err())
			assert.True(b, b.take(scripts.FairLock, kept).Queued)
			assert.Equal(b, again, before != b.HGet(b.Context(), b.waiting(), us).Val(), "%v left", left)
			assert.InDelta(b, (b.keep(us+":2") + site.Lease + 10*time.Second).Seconds(), b.PTTL(b.Context(), b.waiting()).Val().Seconds(), 3)
		}
	})
}

func TestFairAcquire_DropsTheDead(t *testing.T) {
	on(t, func(b bed) {
		b.take(scripts.FairLock, scripts.Terms{Grant: us + ":1", Lease: time.Minute})
		for _, grant := range []string{dead + ":1", stale + ":1", us + ":2"} {
			b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute})
		}
		now := b.Time(b.Context()).Val()
		require.NoError(b, b.HSet(b.Context(), b.waiting(), dead, now.Add(-time.Second).UnixMilli()).Err())
		require.NoError(b, b.ZAdd(b.Context(), b.scores(), redis.Z{Score: float64(now.Add(-5 * time.Second).UnixMilli()), Member: stale + ":1"}).Err())
		b.take(scripts.FairLock, scripts.Terms{Grant: us + ":2", Lease: time.Minute, Standing: true})
		assert.Equal(b, []string{stale + ":1", us + ":2"}, b.queue(), "a waiter counts as dead only after ten more seconds, because clocks may be wrong")
		require.NoError(b, b.ZAdd(b.Context(), b.scores(), redis.Z{Score: float64(now.Add(-time.Minute).UnixMilli()), Member: stale + ":1"}).Err())
		busy := b.take(scripts.FairLock, scripts.Terms{Grant: us + ":2", Lease: time.Minute, Standing: true})
		assert.Zero(b, busy.Joined)
		assert.Equal(b, []string{us + ":2"}, b.queue())

		require.NoError(b, b.LPop(b.Context(), "redisson_lock_queue:{"+b.name+"}").Err()) // a client with a wrong clock may do this
		require.NoError(b, b.ZRem(b.Context(), b.scores(), us+":2").Err())
		for range 2 { // the first reply may be lost
			assert.False(b, b.take(scripts.FairLock, scripts.Terms{Grant: us + ":2", Lease: time.Minute, Standing: true}).Queued, "the reply reports the lost place")
		}
		assert.Empty(b, b.queue())
	})
}

// A queue has two keys: the list and the scores. If one of them is deleted or evicted, the waiters queue again. Otherwise a waiter might wait behind
// a place whose waiter has left, or might wait without having a place.
func TestFairAcquire_HalfOfTheQueueIsLost(t *testing.T) {
	on(t, func(b bed) {
		list := "redisson_lock_queue:{" + b.name + "}"
		asks := func(grant string) scripts.Acquired {
			return b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute, Standing: true})
		}
		for _, lost := range []string{b.scores(), list} {
			for _, grant := range []string{us + ":1", us + ":2", them + ":1", us + ":3"} {
				b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute})
			}
			require.NoError(b, b.Del(b.Context(), lost).Err())
			for _, grant := range []string{us + ":3", them + ":1"} {
				assert.False(b, asks(grant).Queued, "without %s", lost)
				assert.NotZero(b, b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute}).Joined)
			}
			assert.Equal(b, []string{us + ":3", them + ":1"}, b.queue(), "each waiter is queued once")
			assert.Equal(b, us+":3", b.give(scripts.FairLock, scripts.Terms{Grant: us + ":1", Heir: us + ":3", HeirLease: time.Minute}).Heir)
			b.give(scripts.FairLock, scripts.Terms{Grant: us + ":2"}) // gives up before it queues again
			b.give(scripts.FairLock, scripts.Terms{Grant: us + ":3"})
			assert.True(b, asks(them+":1").Granted)
			b.give(scripts.FairLock, scripts.Terms{Grant: them + ":1"})
			assert.Zero(b, b.Exists(b.Context(), b.name, list, b.scores(), b.waiting()).Val(), "nothing is left")
		}
	})
}

// A place without a score belongs to nobody: its waiter has left, or queues again. The place blocks no other waiter, even if the runtime of its
// former waiter lives.
func TestFairRelease_DropsAPlaceWithoutAScore(t *testing.T) {
	on(t, func(b bed) {
		for _, grant := range []string{us + ":1", them + ":1", them + ":2"} {
			b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute})
		}
		require.NoError(b, b.ZRem(b.Context(), b.scores(), them+":1").Err())
		published := b.listening(scripts.WaiterChannel(b.name, them+":2"))
		assert.True(b, b.give(scripts.FairLock, scripts.Terms{Grant: us + ":1"}).Held)
		assert.Equal(b, []string{"0"}, published())
		assert.Equal(b, []string{them + ":2"}, b.queue())
	})
}

func TestFairRelease(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.WaiterChannel(b.name, us+":3"))
		for _, grant := range []string{us + ":1", us + ":2", us + ":3"} {
			b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute})
		}
		released := b.give(scripts.FairLock, scripts.Terms{Grant: us + ":1", Heir: us + ":2", HeirLease: 10 * time.Second})
		assert.Equal(b, []any{true, us + ":2"}, []any{released.Held, released.Heir}, "our own first waiter gets the lock in the same call")
		assert.Equal(b, map[string]string{us + ":2": "1"}, b.fields())
		b.nearTTL(10 * time.Second)
		released = b.give(scripts.FairLock, scripts.Terms{Grant: us + ":1", Heir: us + ":2", HeirLease: 20 * time.Second})
		assert.Equal(b, []any{false, us + ":2"}, []any{released.Held, released.Heir}, "a repeat also names the heir")
		b.nearTTL(20 * time.Second)
		assert.Empty(b, published())

		released = b.give(scripts.FairLock, scripts.Terms{Grant: us + ":2", Heir: us + ":9", HeirLease: time.Minute})
		assert.Equal(b, []any{true, ""}, []any{released.Held, released.Heir}, "another waiter is ahead of the heir")
		assert.Empty(b, b.fields())
		assert.Equal(b, []string{"0"}, published(), "the next waiter is notified")

		b.take(scripts.FairLock, scripts.Terms{Grant: us + ":4", Lease: time.Minute})
		b.give(scripts.FairLock, scripts.Terms{Grant: us + ":4"}) // leaves the end of the queue
		assert.Equal(b, []string{us + ":3"}, b.queue())
		assert.Empty(b, published())
		b.take(scripts.FairLock, scripts.Terms{Grant: us + ":3", Lease: time.Minute, Standing: true})
		assert.Zero(b, b.Exists(b.Context(), b.scores(), b.waiting()).Val(), "nothing is left when nobody waits")
	})
}

// When the queue becomes empty, the information about its waiters' runtimes is deleted.
func TestFairRelease_LeavesNothingOfTheDead(t *testing.T) {
	on(t, func(b bed) {
		for _, grant := range []string{us + ":1", dead + ":1", dead + ":2"} {
			b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute})
		}
		now := b.Time(b.Context()).Val()
		require.NoError(b, b.HSet(b.Context(), b.waiting(), dead, now.Add(-time.Second).UnixMilli()).Err())
		assert.True(b, b.give(scripts.FairLock, scripts.Terms{Grant: us + ":1"}).Held)
		assert.Empty(b, b.queue())
		assert.Zero(b, b.Exists(b.Context(), b.scores(), b.waiting()).Val())
	})
}

func TestFairRelease_ALeavingHeadWakesTheNext(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.WaiterChannel(b.name, them+":1"))
		for _, grant := range []string{us + ":1", us + ":2", them + ":1"} {
			b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute})
		}
		require.NoError(b, b.Del(b.Context(), b.name).Err())
		assert.False(b, b.give(scripts.FairLock, scripts.Terms{Grant: us + ":2"}).Held)
		assert.Equal(b, []string{them + ":1"}, b.queue())
		assert.Equal(b, []string{"0"}, published())
	})
}

func TestFairRelease_TellsWaitersOfOtherKinds(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.LockChannel(b.name))
		for _, grant := range []string{us + ":1", them + ":1"} {
			b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute})
		}
		assert.True(b, b.give(scripts.FairLock, scripts.Terms{Grant: us + ":1"}).Held)
		assert.Equal(b, []string{"0"}, published())
		b.give(scripts.FairLock, scripts.Terms{Grant: us + ":1"})
		assert.Empty(b, published(), "a repeat notifies nobody")
	})
}

// At the end of a turn the heir gets the lock only if nobody waits for another kind of lock.
func TestFairRelease_EndsATurn(t *testing.T) {
	on(t, func(b bed) {
		for _, grant := range []string{us + ":1", us + ":2", us + ":3"} {
			b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute})
		}
		released := b.give(scripts.FairLock, scripts.Terms{Grant: us + ":1", Heir: us + ":2", HeirLease: time.Minute, TurnEnds: true})
		assert.Equal(b, scripts.Released{Held: true, Heir: us + ":2"}, released, "nobody else waits")

		published := b.listening(scripts.LockChannel(b.name))
		released = b.give(scripts.FairLock, scripts.Terms{Grant: us + ":2", Heir: us + ":3", HeirLease: time.Minute, TurnEnds: true})
		assert.Equal(b, scripts.Released{Held: true, Receivers: 1}, released)
		assert.Equal(b, []string{"0"}, published())
		assert.Empty(b, b.fields())
		assert.Equal(b, []string{us + ":3"}, b.queue(), "the heir keeps its place")
	})
}

func TestFairRelease_ALeavingHeadMakesTheNextOneFirst(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.WaiterChannel(b.name, them+":1"))
		terms := func(grant string) scripts.Terms { return scripts.Terms{Grant: grant, Lease: time.Minute} }
		assert.True(b, b.take(scripts.FairLock, terms(us+":1")).Granted)
		assert.True(b, b.take(scripts.FairLock, terms(us+":2")).First)
		assert.False(b, b.take(scripts.FairLock, terms(them+":1")).First)
		b.give(scripts.FairLock, terms(us+":2"))
		assert.Equal(b, []string{"0"}, published(), "the new head is notified, because from now on it listens for releases of other kinds")
		assert.True(b, b.take(scripts.FairLock, scripts.Terms{Grant: them + ":1", Lease: time.Minute, Standing: true}).First)

		b.take(scripts.FairLock, terms(us+":3"))
		require.NoError(b, b.Del(b.Context(), b.name).Err())
		heir := scripts.Terms{Grant: them + ":1", Heir: us + ":3", HeirLease: time.Minute}
		for range 2 {
			left := b.give(scripts.FairLock, heir)
			assert.Equal(b, []any{false, us + ":3"}, []any{left.Held, left.Heir}, "the free lock goes to the heir, as by a release")
		}
		assert.Equal(b, map[string]string{us + ":3": "1"}, b.fields())
	})
}

func TestFairForceReleaseAndInspect(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.WaiterChannel(b.name, us+":2"))
		force := func() []string {
			reply, err := b.run(scripts.FairLock.ForceRelease(site, b.name))
			require.NoError(b, err)
			freed, err := scripts.ReadFreed(reply)
			require.NoError(b, err)
			return freed
		}
		assert.Empty(b, force())
		b.take(scripts.FairLock, scripts.Terms{Grant: us + ":1", Lease: time.Minute})
		b.take(scripts.FairLock, scripts.Terms{Grant: us + ":2", Lease: time.Minute})
		reply, err := b.run(scripts.FairLock.Inspect(b.name))
		require.NoError(b, err)
		state, err := scripts.ReadInspected(reply)
		require.NoError(b, err)
		assert.Equal(b, []string{us + ":2"}, state.Queue)
		assert.Equal(b, us+":1", state.Holders[0].ID)
		assert.Equal(b, []string{us + ":1"}, force())
		assert.Empty(b, b.fields())
		assert.Equal(b, []string{us + ":2"}, b.queue(), "places are kept")
		assert.Equal(b, []string{"0"}, published())
	})
}

// When a waiter leaves, the scores of all waiters behind it are lowered by the time for which a place is kept. This works even if the queue
// is too long for one command.
func TestFairRelease_MovesALongQueueUp(t *testing.T) {
	on(t, func(b bed) {
		const waiters = 1201
		wait := site.FairWait.Milliseconds()
		b.take(scripts.FairLock, scripts.Terms{Grant: us + ":0", Lease: time.Minute})
		base := b.Time(b.Context()).Val().UnixMilli() + 2*wait
		pipe := b.Pipeline()
		for i := range waiters {
			grant := fmt.Sprint(us, ":", i+1)
			pipe.RPush(b.Context(), "redisson_lock_queue:{"+b.name+"}", grant)
			pipe.ZAdd(b.Context(), b.scores(), redis.Z{Score: float64(base + int64(i)*wait), Member: grant})
		}
		_, err := pipe.Exec(b.Context())
		require.NoError(b, err)
		moved := func(what string, by func(i int) int64) {
			for _, z := range b.ZRangeWithScores(b.Context(), b.scores(), 0, -1).Val() {
				var i int
				_, err := fmt.Sscanf(z.Member.(string), us+":%d", &i)
				require.NoError(b, err)
				require.Equal(b, base+int64(i-1)*wait-by(i)*wait, int64(z.Score), "%s: waiter %d", what, i)
			}
		}
		b.give(scripts.FairLock, scripts.Terms{Grant: us + ":600"})
		moved("600 has left", func(i int) int64 { return int64(min(i/600, 1)) })
		b.give(scripts.FairLock, scripts.Terms{Grant: us + ":0", Heir: us + ":1", HeirLease: time.Minute})
		moved("1 has the lock", func(i int) int64 { return 1 + int64(min(i/600, 1)) })
		assert.Len(b, b.queue(), waiters-2)
	})
}

// If many waiters leave the queue in one bundle, the queue is afterwards the same as if each had left on its own.
func TestFairRelease_ManyLeaveAtOnce(t *testing.T) {
	on(t, func(b bed) {
		var beds []bed
		for _, name := range []string{":alone", ":together", ":other"} {
			b := bed{b.UniversalClient, b.T, b.name + name}
			for i := range 40 {
				b.take(scripts.FairLock, scripts.Terms{Grant: fmt.Sprint(us, ":", i), Lease: time.Minute})
			}
			beds = append(beds, b)
		}
		alone, together, other := beds[0], beds[1], beds[2]
		give := func(b bed, i int, heir string) scripts.Call {
			return scripts.FairLock.Release(site, b.name, scripts.Terms{Grant: fmt.Sprint(us, ":", i), Heir: heir, HeirLease: time.Minute})
		}
		// 0 is the holder, 1 the head of the queue and 39 its tail. 6, 7 and 8 are neighbors, 20 leaves twice, and 77 is not in the queue.
		leaving := []int{1, 7, 6, 8, 39, 30, 9, 0, 20, 19, 20, 77, 2}
		var bundle []*scripts.Call
		for _, i := range leaving {
			heir := map[bool]string{true: us + ":2", false: ""}[i == 0]
			_, _ = alone.send(give(alone, i, heir))
			call := give(together, i, heir)
			bundle = append(bundle, &call)
			if i == 30 { // a call for another lock comes between
				call := give(other, 5, "")
				bundle = append(bundle, &call)
			}
		}
		reply, err := b.send(scripts.Bundle(bundle))
		require.NoError(b, err)
		_, err = scripts.Unbundle(reply, len(bundle))
		require.NoError(b, err)

		assert.Equal(b, alone.queue(), together.queue())
		assert.Equal(b, alone.fields(), together.fields())
		assert.Len(b, other.queue(), 38)
		for _, grant := range alone.queue() {
			assert.InDelta(b, alone.keep(grant).Seconds(), together.keep(grant).Seconds(), 3, grant)
		}
		assert.InDelta(b, 60+300*38, other.keep(us+":39").Seconds(), 3)
	})
}

// A waiter can leave the queue of a server that has no memory left. Otherwise its place would stay until the lock is used again.
func TestFairRelease_LeavesAtMaxmemory(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	b := bed{client, t, redistest.Name(t)}
	for _, grant := range []string{us + ":1", us + ":2", us + ":3", us + ":4"} {
		b.take(scripts.FairLock, scripts.Terms{Grant: grant, Lease: time.Minute})
	}
	b.give(scripts.FairLock, scripts.Terms{Grant: us + ":4"}) // loads the script
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	b.give(scripts.FairLock, scripts.Terms{Grant: us + ":2"})
	assert.Equal(t, []string{us + ":3"}, b.queue())
	assert.InDelta(t, 360, b.keep(us+":3").Seconds(), 3, "the waiter behind moves up")
	assert.True(t, b.give(scripts.FairLock, scripts.Terms{Grant: us + ":1"}).Held)
	b.give(scripts.FairLock, scripts.Terms{Grant: us + ":3"})
	assert.Zero(t, client.DBSize(t.Context()).Val(), "nothing is left")
}
