package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

func (b bed) announce(l scripts.Leader) any {
	b.Helper()
	reply, err := b.run(scripts.AnnounceLeader(site, b.name, l, time.Minute))
	require.NoError(b, err)
	return reply
}

func (b bed) leader() (scripts.Leader, bool) {
	b.Helper()
	reply, err := b.run(scripts.ReadLeader(b.name))
	require.NoError(b, err)
	leader, leads, err := scripts.LeaderOf(reply)
	require.NoError(b, err)
	return leader, leads
}

func TestLeader_IsWhoeverHoldsTheLock(t *testing.T) {
	on(t, func(b bed) {
		_, leads := b.leader()
		assert.False(b, leads, "no leader has announced itself")
		one := scripts.Leader{Token: 1<<53 - 2, Grant: us + ":1", Runtime: us, Value: "10.0.0.1:80 \x00\r\n"}
		assert.Equal(b, int64(0), b.announce(one), "without the lock")
		b.take(scripts.FencedLock, scripts.Terms{Grant: one.Grant, Lease: time.Minute})
		_, leads = b.leader()
		assert.False(b, leads, "without an announcement")
		assert.Equal(b, int64(1), b.announce(one))
		found, leads := b.leader()
		require.True(b, leads)
		assert.InDelta(b, b.Time(b.Context()).Val().UnixMilli(), found.Since.Milliseconds(), 60_000)
		since := found.Since
		one.Grant, one.Since = "", since
		assert.Equal(b, one, found)
		b.give(scripts.FencedLock, scripts.Terms{Grant: us + ":1"})
		_, leads = b.leader()
		assert.False(b, leads, "it has released the lock")
		b.take(scripts.FencedLock, scripts.Terms{Grant: us + ":2", Lease: time.Minute})
		_, leads = b.leader()
		assert.False(b, leads, "the next leader has not announced itself")
		assert.Positive(b, b.PTTL(b.Context(), scripts.LeaderKey(b.name)).Val(), "the hash does not stay for ever")
	})
}

// If a newer leader has the lock, an older leader's announcement changes nothing and notifies nobody. The script does not compare tokens: if
// a failover loses a term, the next term may get the same token.
func TestLeader_StaleOneDoesNotOverwrite(t *testing.T) {
	on(t, func(b bed) {
		subscription := b.Subscribe(b.Context(), scripts.LeaderKey(b.name))
		defer subscription.Close()
		_, err := subscription.Receive(b.Context())
		require.NoError(b, err)
		heard := subscription.Channel()
		stale := scripts.Leader{Token: 9007199254740991, Grant: us + ":1", Runtime: us, Value: "old"}
		newer := scripts.Leader{Token: 9007199254740991, Grant: us + ":2", Runtime: us, Value: "new"}
		b.take(scripts.FencedLock, scripts.Terms{Grant: stale.Grant, Lease: time.Minute})
		assert.Equal(b, int64(1), b.announce(stale))
		assert.Equal(b, "9007199254740991", (<-heard).Payload)
		b.give(scripts.FencedLock, scripts.Terms{Grant: stale.Grant})
		b.take(scripts.FencedLock, scripts.Terms{Grant: newer.Grant, Lease: time.Minute})
		assert.Equal(b, int64(0), b.announce(stale))
		assert.Equal(b, int64(1), b.announce(newer))
		assert.Equal(b, "9007199254740991", (<-heard).Payload)
		before := b.HGetAll(b.Context(), scripts.LeaderKey(b.name)).Val()
		assert.Equal(b, int64(0), b.announce(stale))
		assert.Equal(b, int64(1), b.announce(newer), "a repeat")
		assert.Equal(b, before, b.HGetAll(b.Context(), scripts.LeaderKey(b.name)).Val(), "since included")
		require.NoError(b, b.Publish(b.Context(), scripts.LeaderKey(b.name), "end").Err())
		assert.Equal(b, "end", (<-heard).Payload, "the last two announcements publish nothing, nor did the first stale one")
		found, _ := b.leader()
		assert.Equal(b, "new", found.Value)
	})
}

func TestLeader_ForeignKey(t *testing.T) {
	on(t, func(b bed) {
		require.NoError(b, b.Set(b.Context(), scripts.LeaderKey(b.name), "x", 0).Err())
		leader := scripts.Leader{Token: 1, Grant: us + ":1"}
		b.take(scripts.FencedLock, scripts.Terms{Grant: leader.Grant, Lease: time.Minute})
		for _, call := range []scripts.Call{scripts.ReadLeader(b.name), scripts.AnnounceLeader(site, b.name, leader, time.Minute)} {
			_, err := b.run(call)
			assert.ErrorIs(b, scripts.Explain(err), protocol.ErrForeignKey)
		}
		assert.Equal(b, "x", b.Get(b.Context(), scripts.LeaderKey(b.name)).Val())
	})
}

func TestLeaderOf_Nonsense(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{int64(1), "x", []any{}, []any{"1", "r", "v"}, []any{"x", "r", "v", "1"}, []any{"1", "r", "v", nil}} {
		_, _, err := scripts.LeaderOf(reply)
		assert.ErrorContains(t, err, "unexpected reply of the leader_read script", "%v", reply)
	}
}
