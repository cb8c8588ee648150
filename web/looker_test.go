package web

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
)

const lease30 = 30 * time.Second

func TestLooker_OneLookPerSecondHoweverManyWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.set(held("orders", 2))
		l := newLooker(f.source(), "")
		pass(time.Minute)
		looks, _ := f.counts()
		require.Zero(t, looks, "nobody watches")

		var leave []func()
		for range 50 {
			leave = append(leave, l.watch(view{Page: "list"}))
			assert.NotNil(t, l.fresh(t.Context(), view{Page: "list"}).locks["orders"])
		}
		pass(time.Minute)
		looks, sweeps := f.counts()
		assert.InDelta(t, 61, looks, 1)
		assert.LessOrEqual(t, sweeps, looks)

		for _, done := range leave {
			done()
		}
		pass(time.Minute)
		again, _ := f.counts()
		assert.LessOrEqual(t, again, looks+1, "at most one look was under way, or due")
		synctest.Wait()
	})
}

// Reloading a page, or leaving and coming back, causes no additional looks.
func TestLooker_ReloadsAreNoLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		l := newLooker(f.source(), "")
		began := time.Now()
		for time.Since(began) < 10*time.Second {
			l.fresh(t.Context(), view{Page: "list"})
			l.fresh(t.Context(), view{Page: "lock", Name: time.Now().String()})
			pass(10 * time.Millisecond)
		}
		looks, _ := f.counts()
		assert.LessOrEqual(t, looks, 12)
		pass(time.Minute)
	})
}

func TestLooker_History(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		l := newLooker(f.source(), "")
		v := view{Page: "lock", Name: "orders"}
		done := l.watch(v)
		next := func(entries ...inspect.Entry) *lock {
			f.set(entries...)
			pass(2 * time.Second)
			return l.latest().locks["orders"]
		}
		next()
		seen := next(held("orders", 3))
		require.Len(t, seen.holders, 1)
		assert.True(t, seen.holders[0].begun)
		renewals := seen.holders[0].renewals
		seen = next(held("orders", 1))
		assert.Greater(t, seen.holders[0].renewals, renewals, "the rest of its lease does not get shorter")
		assert.Equal(t, 3, seen.waiting.most)
		seen = next()
		assert.Empty(t, seen.holders)
		require.Len(t, seen.past, 2)
		assert.Equal(t, owner, seen.past[0].id)
		assert.Equal(t, 3, seen.past[1].most)
		assert.NotEmpty(t, seen.samples)
		done()
		pass(time.Minute)
		assert.Empty(t, l.fresh(t.Context(), v).locks["orders"].past, "the history is forgotten when nobody watches")
		pass(time.Minute)
	})
}

// A lock that the list does not contain, because of Options.Pattern or the limit of the list, does not count as free.
func TestLooker_LockThatIsNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{unlisted: "orders"}
		f.set(held("orders", 0), held("other", 0))
		f.slow(10*time.Millisecond, false)
		l := newLooker(f.source(), "other")
		v := view{Page: "lock", Name: "orders"}
		done := l.watch(v)
		for range 5 {
			pass(time.Second + 50*time.Millisecond)
			seen := l.latest().locks["orders"]
			require.Len(t, seen.holders, 1)
			assert.False(t, seen.holders[0].begun, "the acquire was not seen")
			assert.Empty(t, seen.past)
			assert.Len(t, l.latest().sorted, 1, "the list does not contain the lock")
		}
		f.set(held("other", 0))
		pass(2 * time.Second)
		assert.Empty(t, l.latest().locks["orders"].holders)
		done()
		pass(time.Minute)
	})
}

// A lock that was in the list, and is now beyond the limit of the list, does not count as free.
func TestLooker_ListIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.set(held("orders", 0))
		f.slow(10*time.Millisecond, false)
		l := newLooker(f.source(), "")
		done := l.watch(view{Page: "lock", Name: "orders"})
		pass(3 * time.Second)
		require.Len(t, l.latest().sorted, 1)
		entries := []inspect.Entry{held("orders", 0)}
		for i := range maxLocks + 1 {
			entries = append(entries, held(strconv.Itoa(i), 0))
		}
		f.set(entries...)
		f.hide("orders")
		pass(3 * time.Second)
		assert.True(t, l.latest().cut)
		seen := l.latest().locks["orders"]
		assert.Len(t, seen.holders, 1)
		assert.Empty(t, seen.past)
		done()
		pass(time.Minute)
	})
}

// While a lock cannot be looked at, its page shows what was read last, and its history does not say that the holder has left.
func TestLooker_LookFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.set(held("orders", 0))
		f.slow(2*time.Second, false) // so lists are rare, and most looks are for the lock only
		l := newLooker(f.source(), "")
		done := l.watch(view{Page: "lock", Name: "orders"})
		pass(6 * time.Second)
		f.fail(errors.New("no route"))
		pass(4 * time.Second)
		seen := l.latest().locks["orders"]
		assert.Len(t, seen.holders, 1)
		assert.Equal(t, "no route", seen.err)
		f.fail(nil)
		pass(20 * time.Second)
		seen = l.latest().locks["orders"]
		assert.Len(t, seen.holders, 1)
		assert.Empty(t, seen.past)
		assert.Empty(t, seen.err)
		done()
		pass(time.Minute)
	})
}

// While Redis does not answer, the snapshot keeps what was known, and has the error.
func TestLooker_RedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.set(held("orders", 0))
		l := newLooker(f.source(), "")
		done := l.watch(view{Page: "list"})
		pass(3 * time.Second)
		f.fail(errors.New("no route"))
		pass(time.Minute)
		began := time.Now()
		s := l.fresh(t.Context(), view{Page: "list"})
		assert.Zero(t, time.Since(began), "a known outage delays nobody")
		assert.Equal(t, "no route", s.err)
		assert.Len(t, s.sorted, 1)
		assert.InDelta(t, 60, time.Since(s.failed).Seconds(), 2)
		f.fail(nil)
		pass(2 * time.Second)
		s = l.latest()
		assert.Empty(t, s.err)
		assert.Zero(t, s.failed)
		done()
		pass(time.Minute)
	})
}

// A lease that runs down is not mistaken for one that is renewed.
func TestLock_Follow(t *testing.T) {
	t.Parallel()
	now := time.Now()
	fall := func(ttl time.Duration) inspect.Entry {
		e := held("orders", 0)
		e.Holders[0].TTL = ttl
		return e
	}
	l := follow(nil, fall(29*time.Second), now, false)
	until := l.holders[0].until
	assert.Equal(t, lease30, l.holders[0].full)
	l = follow(l, fall(27900*time.Millisecond), now.Add(time.Second), false)
	assert.Equal(t, until, l.holders[0].until)
	assert.Zero(t, l.holders[0].renewals)
	l = follow(l, fall(lease30), now.Add(2*time.Second), false)
	assert.Equal(t, 1, l.holders[0].renewals)
	assert.Equal(t, now.Add(32*time.Second), l.holders[0].until)
}

// pass lets time pass in a bubble, and waits for everything that is due by then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
