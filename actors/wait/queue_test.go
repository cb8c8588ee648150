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
	q := Queue{Total: &total}
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

// A request is reported once, when it has waited for the limit. With the largest limits, and with limit 0, it is never reported.
func TestQueue_ReportsSlowRequests(t *testing.T) {
	t.Parallel()
	r := &Request{Came: time.Second}
	var q Queue
	q.Push(r)
	nextSlow := func(now, limit time.Duration) *Request {
		slow, _ := q.NextSlow(now, limit)
		return slow
	}
	for _, limit := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 0} {
		require.Equal(t, clock.Never, q.SlowAt(limit))
		require.Nil(t, nextSlow(time.Hour, limit))
	}
	require.Nil(t, nextSlow(2*time.Second-1, time.Second))
	require.Equal(t, r, nextSlow(2*time.Second, time.Second))
	require.Nil(t, nextSlow(time.Hour, time.Second))
}

// A report says how many requests are before the reported one in its queue. The number is right although requests have joined, left, and changed
// from one queue to the other.
func TestQueue_CountsThoseBeforeASlowRequest(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var queues [2]Queue
	var all []*Request
	for now := range time.Duration(10_000) {
		q := &queues[random.IntN(len(queues))]
		switch i := random.IntN(20); {
		case i >= len(all):
			all = append(all, &Request{Came: now})
			q.Push(all[len(all)-1])
		case random.IntN(2) == 0:
			all[i].Queue.Remove(all[i])
			all = slices.Delete(all, i, i+1)
		default:
			all[i].Queue.Remove(all[i])
			q.Push(all[i])
		}
		if r, ahead := q.NextSlow(now, 10); r != nil {
			want := 0
			for before := q.Front(); before != r; before = before.Next {
				want++
			}
			require.Equal(t, want, ahead, "seed %d", seed)
		}
	}
}

// NextSlow does not search the queue. With a search, it would take too long to report all requests of a long queue, and the actor can do nothing
// else in that time.
func TestQueue_ReportsManySlowRequests(t *testing.T) {
	t.Parallel()
	const many = 1_000_000
	var q Queue
	for range many {
		q.Push(&Request{})
	}
	for i := range many {
		r, ahead := q.NextSlow(time.Second, time.Second)
		require.NotNil(t, r)
		require.Equal(t, i, ahead)
	}
}
