package scripts_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/scripts"
)

func TestFencedAcquire_TakesABlockOfTokens(t *testing.T) {
	on(t, func(b bed) {
		counter := "redisson_lock_token:{" + b.name + "}"
		first := b.take(scripts.FencedLock, scripts.Terms{Grant: "u:1", Lease: 10 * time.Second})
		assert.True(b, first.Granted)
		assert.InDelta(b, b.Time(b.Context()).Val().UnixMicro(), first.Tokens.Last, 5e6, "the server's clock")
		assert.Equal(b, int64(site.Tokens-1), first.Tokens.Last-first.Tokens.First)
		assert.Equal(b, strconv.FormatInt(first.Tokens.Last, 10), b.Get(b.Context(), counter).Val())
		assert.Equal(b, time.Duration(-1), b.PTTL(b.Context(), counter).Val(), "no TTL")
		again := b.take(scripts.FencedLock, scripts.Terms{Grant: "u:1", Lease: time.Second})
		assert.True(b, again.Granted)
		assert.Greater(b, again.Tokens.First, first.Tokens.Last, "a repeat has new ones")
		assert.Equal(b, map[string]string{"u:1": "1"}, b.fields())
		b.nearTTL(10 * time.Second)
		busy := b.take(scripts.FencedLock, scripts.Terms{Grant: "u:2", Lease: time.Second})
		assert.Equal(b, []any{false, "u:1"}, []any{busy.Granted, busy.Holder})

		far := b.Time(b.Context()).Val().Add(time.Hour).UnixMicro() // as after many INCRs, or a clock that was set back
		require.NoError(b, b.Set(b.Context(), counter, far, 0).Err())
		require.NoError(b, b.Del(b.Context(), b.name).Err())
		next := b.take(scripts.FencedLock, scripts.Terms{Grant: "u:2", Lease: time.Second})
		assert.Equal(b, far+1, next.Tokens.First, "never less than was given")
		require.NoError(b, b.Del(b.Context(), b.name, counter).Err())
		lost := b.take(scripts.FencedLock, scripts.Terms{Grant: "u:3", Lease: time.Second})
		assert.Greater(b, lost.Tokens.Last, again.Tokens.Last, "also when the counter was lost")
	})
}

func TestFencedPassAndInspect(t *testing.T) {
	on(t, func(b bed) {
		pass := func(from, grant string) (bool, scripts.Tokens) {
			reply, err := b.run(scripts.FencedLock.Pass(site, b.name, scripts.Terms{From: from, Grant: grant, Lease: time.Minute}))
			require.NoError(b, err)
			passed, tokens, err := scripts.ReadPassed(reply, grant)
			require.NoError(b, err)
			return passed, tokens
		}
		passed, _ := pass("u:1", "u:2")
		assert.False(b, passed)
		first := b.take(scripts.FencedLock, scripts.Terms{Grant: "u:1", Lease: time.Second})
		passed, tokens := pass("u:1", "u:2")
		assert.True(b, passed)
		assert.Greater(b, tokens.First, first.Tokens.Last)
		assert.Equal(b, map[string]string{"u:2": "1"}, b.fields())
		b.nearTTL(time.Minute)
		reply, err := b.run(scripts.FencedLock.Inspect(b.name))
		require.NoError(b, err)
		state, err := scripts.ReadInspected(reply)
		require.NoError(b, err)
		assert.Equal(b, tokens.Last, state.Token)
		assert.True(b, b.give(scripts.FencedLock, scripts.Terms{Grant: "u:2"}).Held)
	})
}
