package conformance

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
)

// fairWait is the difference between the scores of neighbours in a fair lock's queue. A waiter's score is the time from which Redisson considers the
// waiter dead. If scores drift into the future, a waiter that dies blocks all others until the time in its score.
const fairWait = 5 * time.Minute

// tolerance covers the time that passes between two readings of the clock.
const tolerance = 20 * time.Second

// scores returns the waiters in the queue, in order, with their scores.
func scores(t *testing.T, p *locktest.Place) []redis.Z {
	t.Helper()
	found, err := p.Redis.ZRangeWithScores(t.Context(), redissonpeer.FairTimeoutKey(p.Name), 0, -1).Result()
	require.NoError(t, err)
	return found
}

// waiters queues n waiters of a runtime, one after the other. Cancelling a Pending makes its waiter leave the queue.
func waiters(t *testing.T, p *locktest.Place, rt *holdfast.Runtime, n int) (pending []*holdfast.Pending) {
	t.Helper()
	before := len(scores(t, p))
	for i := range n {
		pending = append(pending, p.Lock(rt).AcquireAsync(t.Context()))
		awaitQueue(t, p, before+i+1)
	}
	return pending
}

func awaitQueue(t *testing.T, p *locktest.Place, n int) {
	t.Helper()
	locktest.Await(t, "the queue", func() bool { return len(scores(t, p)) == n })
}

// assertNear asserts that the score of the n-th waiter is at most the end of the lease plus n times fairWait.
func assertNear(t *testing.T, found []redis.Z, lease time.Duration) {
	t.Helper()
	for i, waiter := range found {
		latest := time.Now().Add(lease + time.Duration(i+1)*fairWait + tolerance)
		assert.Less(t, time.UnixMilli(int64(waiter.Score)), latest, "waiter %d of %d", i+1, len(found))
	}
}

// Waiters that time out again and again leave no trace in the scores of later waiters.
func TestFairDrift_TimeOuts(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "fair lock")
	holder := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
	rounds := locktest.Scaled(50, 5)
	var all sync.WaitGroup
	for range 3 {
		rt := p.Runtime(t, holdfast.Options{})
		all.Go(func() {
			for range rounds {
				_, err := p.Lock(rt).Acquire(t.Context(), holdfast.WithWait(30*time.Millisecond))
				assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
				assertNear(t, scores(t, p), 30*time.Second)
			}
		})
	}
	all.Wait()
	awaitQueue(t, p, 0)
	last := waiters(t, p, p.Runtime(t, holdfast.Options{}), 1)
	assertNear(t, scores(t, p), 30*time.Second)
	locktest.Release(t, holder)
	takeAndRelease(t, last[0])
}

// Waiters that are granted the lock and release it leave no trace in the scores of later waiters.
func TestFairDrift_Grants(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "fair lock")
	var all sync.WaitGroup
	for range 3 {
		rt := p.Runtime(t, holdfast.Options{})
		all.Go(func() {
			for range locktest.Scaled(200, 20) {
				err := p.Lock(rt).Do(t.Context(), func(context.Context) error {
					assertNear(t, scores(t, p), 30*time.Second)
					return nil
				})
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	assert.Empty(t, scores(t, p))
}

// When a waiter leaves, the waiters behind it move up by one place: none may keep the score of its old place.
func TestFairDrift_LeavingWaiterMakesRoom(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "fair lock")
	holder := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
	var line []*holdfast.Pending
	for range 4 { // each in its own process: a waiter of the same process would take over the place of the one that leaves
		line = append(line, waiters(t, p, p.Runtime(t, holdfast.Options{}), 1)...)
	}
	before := scores(t, p)
	line[1].Cancel()
	awaitQueue(t, p, 3)
	after := scores(t, p)
	assert.Equal(t, before[0], after[0], "the one ahead keeps its score")
	for i := 1; i < 3; i++ {
		assert.Equal(t, before[i+1].Member, after[i].Member, "the order stays")
		assert.InDelta(t, before[i].Score, after[i].Score, float64(tolerance.Milliseconds()), "moved up by a place")
	}
	locktest.Release(t, holder)
	takeAndRelease(t, line[0])
	takeAndRelease(t, line[2])
	takeAndRelease(t, line[3])
}

// When a waiter leaves, the next waiter of its process takes over its place in the queue. The place that disappears from the queue is the last place
// of that process. The other places stay in their order, and are served in this order.
func TestFairDrift_ProcessLeavesItsLastPlace(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "fair lock")
	holder := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
	ours, theirs := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
	var line []*holdfast.Pending
	for _, rt := range []*holdfast.Runtime{ours, theirs, ours, theirs} {
		line = append(line, waiters(t, p, rt, 1)...)
	}
	before := members(scores(t, p))
	line[0].Cancel()
	awaitQueue(t, p, 3)
	assert.Equal(t, append(before[:2:2], before[3]), members(scores(t, p)))
	locktest.Release(t, holder)
	for _, next := range []int{2, 1, 3} {
		takeAndRelease(t, line[next])
	}
}

func members(found []redis.Z) (names []string) {
	for _, z := range found {
		names = append(names, z.Member.(string))
	}
	return names
}

// When the first waiter is granted the lock, the next waiter's score becomes earlier by fairWait. A newcomer then gets a score that is fairWait later
// than this new score.
func TestFairDrift_GrantMovesTheQueueUp(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "fair lock")
	holder := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
	rt := p.Runtime(t, holdfast.Options{})
	line := waiters(t, p, rt, 2)
	before := scores(t, p)
	locktest.Release(t, holder)
	first, err := line[0].Lease()
	require.NoError(t, err)
	line = append(line, waiters(t, p, rt, 1)...)
	after := scores(t, p)
	require.Len(t, after, 2)
	assert.Equal(t, before[1].Member, after[0].Member)
	assert.InDelta(t, before[0].Score, after[0].Score, float64(tolerance.Milliseconds()), "moved up by a place")
	assert.InDelta(t, after[0].Score+float64(fairWait.Milliseconds()), after[1].Score, float64(tolerance.Milliseconds()))
	locktest.Release(t, first)
	takeAndRelease(t, line[1])
	takeAndRelease(t, line[2])
}

func takeAndRelease(t *testing.T, pending *holdfast.Pending) {
	t.Helper()
	locktest.Closed(t, "the grant", pending.Done())
	lease, err := pending.Lease()
	require.NoError(t, err)
	locktest.Release(t, lease)
}

// A waiter that gives up while its process cannot reach Redis leaves the queue as soon as Redis answers again. If Redis does not answer for the
// length of a lease, the waiter counts as dead, and no longer blocks the others.
func TestFairLock_UnansweredWaiterLeavesTheQueue(t *testing.T) {
	t.Parallel()
	lease := locktest.Unhurried(time.Second)
	p := locktest.OwnPlaceOf(t, "fair lock")
	rt := p.Runtime(t, holdfast.Options{Lease: lease})
	holder := locktest.Acquire(t, p.Lock(rt))
	cut, proxy := p.Proxied(t, holdfast.Options{Lease: lease})
	waiter := waiters(t, p, cut, 1)[0]
	proxy.Blackhole(true)
	waiter.Cancel()
	_, err := waiter.Lease()
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)

	other := p.Lock(rt).AcquireAsync(t.Context())
	released := time.Now()
	locktest.Release(t, holder)
	locktest.Closed(t, "the next waiter to be granted the lock past the silent one", other.Done())
	assert.Less(t, time.Since(released), 2*lease+locktest.Slack(), "the silent waiter counts as dead after a lease")
	next, err := other.Lease()
	require.NoError(t, err)
	locktest.Release(t, next)

	holder = locktest.Acquire(t, p.Lock(rt))
	proxy.Blackhole(false)
	queued := waiters(t, p, cut, 1)[0]
	proxy.Blackhole(true)
	queued.Cancel()
	proxy.Blackhole(false)
	awaitQueue(t, p, 0)
	locktest.Release(t, holder)
}
