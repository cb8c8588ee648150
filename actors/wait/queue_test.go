package wait

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/protocol"
)

// Requests join and leave at any place, in any order. The others keep their order, and are counted.
func TestQueue_KeepsTheOrderOfThoseWhoStay(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	total, others := 0, Queue{}
	q := Queue{Crowd: &total}
	var want []*Request
	for range 10_000 {
		if i := random.IntN(20); i < len(want) {
			require.True(t, q.Remove(want[i]), "seed %d", seed)
			require.False(t, q.Remove(want[i]), "seed %d: it has left", seed)
			want = slices.Delete(want, i, i+1)
		} else {
			r := &Request{}
			if number := random.Uint64N(3); number > 0 { // number 0: the request has no explicit owner
				r.Owner = protocol.NewOwner("u", number)
			}
			q.Push(r)
			require.False(t, others.Remove(r), "seed %d: it does not wait there", seed)
			want = append(want, r)
		}
		var got, back []*Request
		owners := map[protocol.Owner]int{}
		for r := q.Front(); r != nil; r = r.Next {
			got = append(got, r)
			if !r.Owner.IsZero() {
				owners[r.Owner]++
			}
		}
		for r := q.tail; r != nil; r = r.prev {
			back = append(back, r)
		}
		slices.Reverse(back)
		require.True(t, slices.Equal(want, got), "seed %d", seed)
		require.True(t, slices.Equal(want, back), "seed %d", seed)
		require.Equal(t, len(want), q.Len, "seed %d", seed)
		require.Equal(t, len(want), total, "seed %d", seed)
		require.True(t, maps.Equal(owners, q.Owners), "seed %d: %v, not %v", seed, q.Owners, owners)
	}
}

// A request is reported once, when it has waited for the limit. The largest limit is never over.
func TestQueue_ReportsSlowRequests(t *testing.T) {
	t.Parallel()
	r := &Request{Came: time.Second}
	var q Queue
	q.Push(r)
	for _, limit := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 0} {
		require.Equal(t, clock.Never, q.SlowAt(limit))
		require.Nil(t, q.NextSlow(time.Hour, limit))
	}
	require.Nil(t, q.NextSlow(2*time.Second-1, time.Second))
	require.Equal(t, r, q.NextSlow(2*time.Second, time.Second))
	require.Nil(t, q.NextSlow(time.Hour, time.Second))
}
