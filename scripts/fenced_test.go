package scripts_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Even if the counter is lost between two acquires, the second acquire gets larger tokens than the first. In this test, a block of tokens spans
// 10 ms, and the acquires follow each other faster than that. So the first block after a loss must not begin in the past: it
// would repeat tokens.
func TestFencedAcquire_NoTokenComesBackAtOnce(t *testing.T) {
	on(t, func(b bed) {
		many := *site
		many.Tokens = 10_000 // one for each microsecond of 10 ms
		largest := int64(0)
		for i := range 20 {
			grant := us + ":" + strconv.Itoa(i)
			reply, err := b.run(scripts.FencedLock.Acquire(&many, b.name, scripts.Terms{Grant: grant, Lease: time.Minute}))
			require.NoError(b, err)
			taken, err := scripts.ReadAcquired(reply, grant)
			require.NoError(b, err)
			assert.Greater(b, taken.Tokens.First, largest)
			largest = taken.Tokens.First
			b.give(scripts.FencedLock, scripts.Terms{Grant: grant})
			switch i % 4 {
			case 1: // the counter is lost
				require.NoError(b, b.Del(b.Context(), "redisson_lock_token:{"+b.name+"}").Err())
			case 3: // the counter is lost, and Redisson then issues the first token
				require.NoError(b, b.Set(b.Context(), "redisson_lock_token:{"+b.name+"}", 1, 0).Err())
			}
		}
	})
}

func TestFencedAcquire_TakesABlockOfTokens(t *testing.T) {
	on(t, func(b bed) {
		counter := "redisson_lock_token:{" + b.name + "}"
		first := b.take(scripts.FencedLock, scripts.Terms{Grant: us + ":1", Lease: 10 * time.Second})
		assert.True(b, first.Granted)
		assert.InDelta(b, b.Time(b.Context()).Val().UnixMicro(), first.Tokens.Last, 5e6, "the server's clock")
		assert.Equal(b, first.Tokens.Last, first.Tokens.First, "only one token: a missing counter may have been lost")
		assert.Equal(b, strconv.FormatInt(first.Tokens.Last, 10), b.Get(b.Context(), counter).Val())
		assert.Equal(b, time.Duration(-1), b.PTTL(b.Context(), counter).Val(), "no TTL")
		again := b.take(scripts.FencedLock, scripts.Terms{Grant: us + ":1", Lease: time.Second})
		assert.True(b, again.Granted)
		assert.Greater(b, again.Tokens.First, first.Tokens.Last, "a repeat has new tokens")
		assert.Equal(b, map[string]string{us + ":1": "1"}, b.fields())
		b.nearTTL(10 * time.Second)
		busy := b.take(scripts.FencedLock, scripts.Terms{Grant: us + ":2", Lease: time.Second})
		assert.Equal(b, []any{false, us + ":1"}, []any{busy.Granted, busy.Holder})

		earlier := b.Time(b.Context()).Val().Add(-time.Second).UnixMicro()
		require.NoError(b, b.Set(b.Context(), counter, earlier, 0).Err())
		require.NoError(b, b.Del(b.Context(), b.name).Err())
		block := b.take(scripts.FencedLock, scripts.Terms{Grant: us + ":5", Lease: time.Second})
		assert.Equal(b, int64(site.Tokens-1), block.Tokens.Last-block.Tokens.First, "a block")

		far := b.Time(b.Context()).Val().Add(time.Hour).UnixMicro() // many INCRs, or a clock that was set back, have the same effect
		require.NoError(b, b.Set(b.Context(), counter, far, 0).Err())
		require.NoError(b, b.Del(b.Context(), b.name).Err())
		next := b.take(scripts.FencedLock, scripts.Terms{Grant: us + ":2", Lease: time.Second})
		assert.Equal(b, far+1, next.Tokens.First, "larger than every token issued before")
		require.NoError(b, b.Del(b.Context(), b.name, counter).Err())
		lost := b.take(scripts.FencedLock, scripts.Terms{Grant: us + ":3", Lease: time.Second})
		assert.Greater(b, lost.Tokens.Last, again.Tokens.Last, "even if the counter was lost")
	})
}

// Lua represents integers exactly up to 2^53. A counter of that size or more, or a value that is not a counter, is refused and left unchanged,
// because a rounded counter could issue a token twice.
func TestFenced_CounterThatIsNone(t *testing.T) {
	on(t, func(b bed) {
		counter := "redisson_lock_token:{" + b.name + "}"
		for _, value := range []string{
			"9007199254740992", "9007199254740993", "9223372036854775807", "18446744073709551616", strconv.FormatInt(time.Now().UnixNano(), 10),
			strings.Repeat("9", 400), "nan", "inf", "-inf", "abc", "", "0x10", "1.5", "1e3", "-5", "-0", "+5", "007", " 7", "7 ",
		} {
			b.take(scripts.Lock, scripts.Terms{Grant: us + ":1", Lease: time.Minute}) // held, so that it could be passed on
			require.NoError(b, b.Set(b.Context(), counter, value, 0).Err())
			refused := func(call scripts.Call) {
				_, err := b.run(call)
				require.ErrorIs(b, scripts.Explain(err), protocol.ErrForeignKey, "%q", value)
				assert.ErrorContains(b, err, counter)
				assert.Equal(b, scripts.Rejected, scripts.Classify(err))
				assert.Equal(b, value, b.Get(b.Context(), counter).Val(), "the counter is not changed")
			}
			refused(scripts.FencedLock.Pass(site, b.name, scripts.Terms{From: us + ":1", Grant: us + ":2", Lease: time.Minute}))
			assert.Equal(b, map[string]string{us + ":1": "1"}, b.fields(), "nothing is passed on")
			b.give(scripts.Lock, scripts.Terms{Grant: us + ":1"})
			refused(scripts.FencedLock.Acquire(site, b.name, scripts.Terms{Grant: us + ":3", Lease: time.Minute}))
			assert.Empty(b, b.fields(), "nothing is acquired")
		}
	})
}

// If the counter has another type, the error names the counter. The error does not suggest that another library's lock is in the way, because such
// a lock would be at the lock's own key.
func TestFenced_CounterOfAnotherType(t *testing.T) {
	on(t, func(b bed) {
		counter := "redisson_lock_token:{" + b.name + "}"
		require.NoError(b, b.RPush(b.Context(), counter, "x").Err())
		refused := func(call scripts.Call) {
			_, err := b.run(call)
			err = call.Explain(err)
			require.ErrorIs(b, err, protocol.ErrForeignKey)
			assert.ErrorContains(b, err, counter)
			assert.NotContains(b, err.Error(), "Migrating")
		}
		refused(scripts.FencedLock.Acquire(site, b.name, scripts.Terms{Grant: us + ":3", Lease: time.Minute}))
		assert.Empty(b, b.fields(), "nothing is acquired")
		b.take(scripts.Lock, scripts.Terms{Grant: us + ":1", Lease: time.Minute})
		refused(scripts.FencedLock.Pass(site, b.name, scripts.Terms{From: us + ":1", Grant: us + ":2", Lease: time.Minute}))
		assert.Equal(b, map[string]string{us + ":1": "1"}, b.fields(), "nothing is passed on")
		assert.Equal(b, []string{"x"}, b.LRange(b.Context(), counter, 0, -1).Val())
	})
}

// Near its maximum, a counter issues the last tokens one by one, and then no more.
func TestFenced_LastTokens(t *testing.T) {
	on(t, func(b bed) {
		const end = 1<<53 - 1
		counter := "redisson_lock_token:{" + b.name + "}"
		require.NoError(b, b.Set(b.Context(), counter, end-2, 0).Err())
		for i, want := range []int64{end - 1, end} {
			grant := us + ":" + strconv.Itoa(i)
			taken := b.take(scripts.FencedLock, scripts.Terms{Grant: grant, Lease: time.Minute})
			assert.Equal(b, scripts.Tokens{First: want, Last: want}, taken.Tokens)
			b.give(scripts.FencedLock, scripts.Terms{Grant: grant})
		}
		_, err := b.run(scripts.FencedLock.Acquire(site, b.name, scripts.Terms{Grant: us + ":3", Lease: time.Minute}))
		require.ErrorIs(b, scripts.Explain(err), protocol.ErrForeignKey)
		assert.ErrorContains(b, err, "no token is left")
		assert.Empty(b, b.fields())
		assert.Equal(b, strconv.Itoa(end), b.Get(b.Context(), counter).Val())
	})
}

func TestFencedPassAndInspect(t *testing.T) {
	on(t, func(b bed) {
		pass := func(from, grant string) (bool, scripts.Tokens) {
			reply, err := b.run(scripts.FencedLock.Pass(site, b.name, scripts.Terms{From: from, Grant: grant, Lease: time.Minute}))
			require.NoError(b, err)
			passed, err := scripts.ReadPassed(reply, grant)
			require.NoError(b, err)
			return passed.Held, passed.Tokens
		}
		passed, _ := pass(us+":1", us+":2")
		assert.False(b, passed)
		first := b.take(scripts.FencedLock, scripts.Terms{Grant: us + ":1", Lease: time.Second})
		passed, tokens := pass(us+":1", us+":2")
		assert.True(b, passed)
		assert.Greater(b, tokens.First, first.Tokens.Last)
		assert.Equal(b, map[string]string{us + ":2": "1"}, b.fields())
		b.nearTTL(time.Minute)
		reply, err := b.run(scripts.FencedLock.Inspect(b.name))
		require.NoError(b, err)
		state, err := scripts.ReadInspected(reply)
		require.NoError(b, err)
		assert.Equal(b, tokens.Last, state.Token)
		for _, value := range []string{"abc", "-5", "1.5", ""} {
			require.NoError(b, b.Set(b.Context(), "redisson_lock_token:{"+b.name+"}", value, 0).Err())
			reply, err = b.run(scripts.FencedLock.Inspect(b.name))
			require.NoError(b, err)
			_, err = scripts.ReadInspected(reply)
			assert.ErrorIs(b, err, protocol.ErrForeignKey, "%q", value)
		}
		assert.True(b, b.give(scripts.FencedLock, scripts.Terms{Grant: us + ":2"}).Held)
	})
}
