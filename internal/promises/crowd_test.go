package promises_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/scripts"
)

// crowd is a lock whose channel has 64 subscribers, so processes that wait for the lock take tickets (scripts/lib/crowd.lua).
type crowd struct {
	*locktest.Place
	channel, key string
}

func inCrowds(t *testing.T, body func(t *testing.T, c crowd)) {
	for _, kind := range []string{"lock", "fenced lock"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := locktest.PlaceOf(t, kind)
			c := crowd{Place: p, channel: scripts.LockChannel(p.Name), key: scripts.CrowdKey(scripts.LockChannel(p.Name))}
			client := p.Client(t)
			for range 64 {
				subscription := client.Subscribe(t.Context(), c.channel)
				t.Cleanup(func() { _ = subscription.Close() })
				_, err := subscription.Receive(t.Context())
				require.NoError(t, err)
			}
			body(t, c)
		})
	}
}

// tickets adds tickets for processes that do not exist. The parameter `dead` is the number of these processes.
func (c crowd) tickets(t *testing.T, dead int) {
	var members []redis.Z
	for n := range dead {
		members = append(members, redis.Z{Score: float64(32 + n), Member: fmt.Sprintf("%08d-dead-4000-8000-000000000000", n)})
	}
	require.NoError(t, c.Redis.ZAdd(t.Context(), c.key, members...).Err())
}

// row returns the number of a process's row if the process waits on the row's channel. If the process waits for releases, row returns 0.
func (c crowd) row(t *testing.T, rt *holdfast.Runtime) int64 {
	row := int64(c.Redis.ZScore(t.Context(), c.key, rt.ID()).Val()) / 16
	if c.Subscribers(t, scripts.RowChannel(c.channel, row)) == 0 {
		return 0
	}
	return row
}

// Each process that waits gets a ticket, which is removed when the process gets the lock.
func TestCrowd_TakesPlaces(t *testing.T) {
	t.Parallel()
	inCrowds(t, func(t *testing.T, c crowd) {
		first, second := c.Runtime(t, holdfast.Options{}), c.Runtime(t, holdfast.Options{})
		for range 3 {
			lease := locktest.Acquire(t, c.Lock(first))
			waiting := c.Lock(second).AcquireAsync(t.Context())
			locktest.Await(t, "a place", func() bool { return c.Redis.ZCard(t.Context(), c.key).Val() == 1 })
			locktest.Release(t, lease)
			lease, err := waiting.Lease()
			require.NoError(t, err)
			assert.Zero(t, c.Redis.ZCard(t.Context(), c.key).Val())
			locktest.Release(t, lease)
		}
	})
}

// A process far back in a crowd subscribes to the channel of its row instead of the lock's channel. After a message on the row's channel, the
// process subscribes to the lock's channel again.
func TestCrowd_ARowIsCalled(t *testing.T) {
	t.Parallel()
	inCrowds(t, func(t *testing.T, c crowd) {
		long := holdfast.Options{Handoff: holdfast.Handoff{For: 10 * time.Second}} // so that the process waits as long as possible for its row to be called
		first, second := c.Runtime(t, long), c.Runtime(t, long)
		c.tickets(t, 100)
		lease := locktest.Acquire(t, c.Lock(first))
		waiting := c.Lock(second).AcquireAsync(t.Context())
		var row int64
		locktest.Await(t, "a subscription to the row", func() bool { row = c.row(t, second); return row > 0 })
		assert.Equal(t, int64(132/16), row)
		locktest.Await(t, "the end of the other subscription", func() bool { return c.Subscribers(t, c.channel) == 64 })
		entry, err := inspect.Look(t.Context(), c.Redis, c.Name)
		require.NoError(t, err)
		assert.Equal(t, 65, entry.Waiting, "processes that wait for a call count")

		require.NoError(t, c.Redis.ZRemRangeByRank(t.Context(), c.key, 0, 83).Err()) // now the row belongs in front
		require.NoError(t, c.Redis.Publish(t.Context(), scripts.RowChannel(c.channel, row), "0").Err())
		locktest.Await(t, "a subscription to the releases", func() bool { return c.Subscribers(t, c.channel) == 65 })
		locktest.Release(t, lease)
		lease, err = waiting.Lease()
		require.NoError(t, err)
		locktest.Release(t, lease)
	})
}

// If the processes that should call a row are dead, the processes of the row still get the lock. A waiter that gives up leaves only its ticket
// behind, and the ticket expires.
func TestCrowd_NobodyCalls(t *testing.T) {
	t.Parallel()
	inCrowds(t, func(t *testing.T, c crowd) {
		first, second, third := c.Runtime(t, holdfast.Options{}), c.Runtime(t, holdfast.Options{}), c.Runtime(t, holdfast.Options{})
		c.tickets(t, 100)
		lease := locktest.Acquire(t, c.Lock(first))
		waiting, other := c.Lock(second).AcquireAsync(t.Context()), c.Lock(third).AcquireAsync(t.Context())
		locktest.Await(t, "subscriptions to the row", func() bool { return c.row(t, second) > 0 && c.row(t, third) > 0 })
		other.Cancel()
		locktest.Await(t, "the end of one", func() bool {
			return c.Subscribers(t, scripts.RowChannel(c.channel, c.row(t, second))) == 1
		})
		stalls := locktest.WatchStalls(t, c.Place)
		start := time.Now()
		locktest.Release(t, lease)
		lease, err := waiting.Lease()
		require.NoError(t, err)
		assert.Less(t, time.Since(start), 8*time.Second+stalls.Slack())
		locktest.Release(t, lease)
		assert.Positive(t, c.Redis.ZScore(t.Context(), c.key, third.ID()).Val())
	})
}
