package scripts_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/scripts"
)

// crowd is a lock whose channel may have enough subscribers for a crowd (lib/crowd.lua).
type crowd struct {
	bed
	kind    *scripts.Kind
	channel string
	key     string
}

func crowdOf(b bed, kind *scripts.Kind) crowd {
	channel := scripts.LockChannel(b.name)
	return crowd{bed: b, kind: kind, channel: channel, key: scripts.CrowdKey(channel)}
}

// inCrowds runs a test with a lock whose channel has 64 subscribers.
func inCrowds(t *testing.T, body func(c crowd)) {
	for _, kind := range []*scripts.Kind{scripts.Lock, scripts.FencedLock} {
		t.Run(string(kind.Name), func(t *testing.T) {
			on(t, func(b bed) {
				c := crowdOf(b, kind)
				for range 64 {
					c.listening(c.channel)
				}
				body(c)
			})
		})
	}
}

// process returns a grant of process n.
func process(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000:1", n) }

// refuse makes processes ask for the lock while it is taken. It returns the reply to the last one.
func (c crowd) refuse(mark string, processes ...int) (last scripts.Acquired) {
	c.Helper()
	for _, n := range processes {
		last = c.take(c.kind, scripts.Terms{Grant: process(n), Lease: time.Minute, Report: mark + c.channel})
		require.False(c, last.Granted)
	}
	return last
}

// turn frees the lock, and then makes a process with a ticket acquire it.
func (c crowd) turn(n int) {
	c.Helper()
	require.NoError(c, c.Del(c.Context(), c.name).Err())
	require.True(c, c.take(c.kind, scripts.Terms{Grant: process(n), Lease: time.Minute, Report: scripts.HasTicket + c.channel}).Granted)
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// A crowd begins with the 64th subscriber.
func TestCrowd_Begins(t *testing.T) {
	on(t, func(b bed) {
		c := crowdOf(b, scripts.Lock)
		c.turn(0)
		for range 63 {
			c.listening(c.channel)
		}
		assert.Zero(b, c.refuse("", 1).Place)
		c.listening(c.channel)
		assert.Equal(b, 1, c.refuse("", 1).Place)
	})
}

// Each process has one place. The places are in the order of the first refusals. A process that has had the lock gets a place behind all others.
func TestCrowd_Places(t *testing.T) {
	inCrowds(t, func(c crowd) {
		c.turn(0)
		assert.Zero(c, c.Exists(c.Context(), c.key).Val(), "nobody waits")
		for n := 1; n <= 3; n++ {
			busy := c.refuse("", n)
			assert.Equal(c, 64, busy.Subscribers)
			assert.Equal(c, n, busy.Place)
			assert.Zero(c, busy.Ticket, "it is in front")
		}
		assert.Equal(c, 2, c.refuse(scripts.HasTicket, 2).Place, "it keeps its place")
		assert.Equal(c, 3, c.refuse("", 3).Place, "even if it has forgotten it")
		assert.InDelta(c, 600, c.PTTL(c.Context(), c.key).Val().Seconds(), 1.5)
		assert.True(c, scripts.IsSideKey(c.key))
		c.turn(1)
		c.turn(0)
		assert.Equal(c, 1, c.refuse(scripts.HasTicket, 2).Place)
		assert.Equal(c, 3, c.refuse("", 1).Place)
	})
}

// A process whose row is far back waits until the row is called (lib/crowd.lua). A row is called when only sixteen processes are ahead of it. If the
// row is already the next one to be called, its processes do not wait for the call.
func TestCrowd_CallsRows(t *testing.T) {
	inCrowds(t, func(c crowd) {
		c.turn(0)
		assert.Equal(c, int64(101), c.refuse("", upTo(70)...).Ticket)
		called := c.listening(scripts.RowChannel(c.channel, 101/16)) // the row of processes 65 and up
		for n := 1; n < 32; n++ {
			c.turn(n)
			assert.Equal(c, int64(101), c.refuse(scripts.HasTicket, 70).Ticket, "turn %d", n)
		}
		for n := 32; n < 48; n++ {
			assert.Empty(c, called(), "turn %d", n)
			c.turn(n)
			assert.Zero(c, c.refuse(scripts.HasTicket, 70).Ticket, "its row is the next to be called")
		}
		c.turn(48)
		assert.Equal(c, []string{"0"}, called())
		assert.Equal(c, 17, c.refuse(scripts.HasTicket, 65).Place)
	})
}

// When a process gets the lock before its turn, the first sixteen tickets ahead of it get one mark each. The fourth mark removes a ticket. If the
// process of a ticket tries to acquire the lock before that, the ticket loses its marks. So one early grant cannot remove a ticket without marks.
func TestCrowd_RemovesTheDead(t *testing.T) {
	inCrowds(t, func(c crowd) {
		c.turn(0)
		c.refuse("", upTo(30)...) // 1 and 3 are dead, 2 is late
		for n := 4; n <= 7; n++ {
			c.turn(n)
			assert.LessOrEqual(c, c.refuse(scripts.HasTicket, 2).Place, 2)
		}
		assert.Equal(c, 1, c.refuse(scripts.HasTicket, 2).Place)
		assert.Equal(c, 2, c.refuse(scripts.HasTicket, 8).Place)
		c.turn(28)
		assert.Equal(c, 11, c.refuse(scripts.HasTicket, 17).Place, "2 and 8 to 16 have one mark each")
		for range 3 {
			c.turn(30)
			c.turn(0)
			c.refuse("", 30)
		}
		assert.Equal(c, 2, c.refuse(scripts.HasTicket, 23).Place, "of the first sixteen, only 17 has tried in between")
		assert.Equal(c, 9, c.refuse(scripts.HasTicket, 2).Place, "it takes a new ticket")
	})
}

// If other processes wait, a process that has just had the lock does not get it, although the lock is free.
func TestCrowd_Yields(t *testing.T) {
	inCrowds(t, func(c crowd) {
		yield := func() scripts.Acquired {
			return c.take(c.kind, scripts.Terms{Grant: process(1), Lease: time.Minute, Report: scripts.Yields + c.channel})
		}
		assert.True(c, yield().Granted, "nobody waits")
		c.turn(0)
		c.refuse("", 2)
		require.NoError(c, c.Del(c.Context(), c.name).Err())
		assert.Equal(c, scripts.Acquired{TTL: -time.Millisecond, Subscribers: 64, Place: 2}, yield())
		c.turn(2)
		c.turn(1)
		assert.Zero(c, c.ZCard(c.Context(), c.key).Val())
	})
}

// When few subscribers are left, no process has to wait for the call of its row. When the last ticket is gone, the crowd has ended.
func TestCrowd_Ends(t *testing.T) {
	on(t, func(b bed) {
		c := crowdOf(b, scripts.Lock)
		var members []redis.Z
		for n := 1; n <= 100; n++ {
			members = append(members, redis.Z{Score: float64(31 + n), Member: process(n)[:36]})
		}
		c.turn(0)
		require.NoError(b, c.ZAdd(c.Context(), c.key, members...).Err())
		busy := c.refuse(scripts.HasTicket, 100)
		assert.Equal(b, 100, busy.Place)
		assert.Zero(b, busy.Ticket, "nobody may be left to call its row")
		for range scripts.CrowdLeast {
			assert.Zero(b, c.refuse("", 100).Place, "too few for a crowd")
			assert.Zero(b, c.refuse(scripts.HasTicket, 100).Ticket)
			c.listening(c.channel)
		}
		busy = c.refuse("", 100)
		assert.Equal(b, 100, busy.Place, "the crowd has other processes, which may not have subscribed to the channel yet")
		assert.Positive(b, busy.Ticket)
		require.NoError(b, c.Del(c.Context(), c.key).Err())
		assert.Zero(b, c.refuse(scripts.HasTicket, 100).Place)
	})
}

// If the key of the set of tickets holds a foreign value, only the order in which processes get the lock is affected.
func TestCrowd_Foreign(t *testing.T) {
	inCrowds(t, func(c crowd) {
		require.NoError(c, c.Set(c.Context(), c.key, "text", 0).Err())
		c.turn(0)
		busy := c.refuse("", 1)
		assert.Equal(c, 64, busy.Subscribers)
		assert.Zero(c, busy.Place)
		c.turn(1)
		assert.Equal(c, "text", c.Get(c.Context(), c.key).Val())
		require.NoError(c, c.Del(c.Context(), c.key).Err())
		require.NoError(c, c.ZAdd(c.Context(), c.key, redis.Z{Score: 1e300, Member: "x"}, redis.Z{Score: -5, Member: "y"}).Err())
		assert.Equal(c, 2, c.refuse("", 2).Place)
		c.turn(2)
		assert.Equal(c, int64(2), c.ZCard(c.Context(), c.key).Val())
	})
}

// A script ends even if the set of tickets holds scores that no ticket can have.
func TestCrowd_ForeignScores(t *testing.T) {
	for _, score := range []float64{math.Inf(1), math.Inf(-1), 1e300, -1e300} {
		t.Run(fmt.Sprint(score), func(t *testing.T) {
			inCrowds(t, func(c crowd) {
				for n := range 40 {
					require.NoError(c, c.ZAdd(c.Context(), c.key, redis.Z{Score: score, Member: process(100 + n)[:36]}).Err())
				}
				c.turn(0)
				c.refuse("", 1)
				c.turn(1)
				c.turn(102)
			})
		})
	}
}

// When many dead processes are removed at once, the last row may come to the front. It is then called like any other row.
func TestCrowd_CallsTheLastRow(t *testing.T) {
	inCrowds(t, func(c crowd) {
		c.turn(0)
		c.refuse("", upTo(33)...) // 1 to 16 are dead
		called := c.listening(scripts.RowChannel(c.channel, 64/16))
		for n := 17; n < 20; n++ {
			c.turn(n)
		}
		assert.Equal(c, int64(30), c.ZCard(c.Context(), c.key).Val())
		assert.Empty(c, called())
		c.turn(20) // removes all sixteen
		assert.Equal(c, int64(13), c.ZCard(c.Context(), c.key).Val())
		assert.Equal(c, []string{"0"}, called(), "process 33")
	})
}
