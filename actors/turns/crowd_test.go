package turns

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crowded is a process that has a place in a crowd.
type crowded struct {
	Turns
	p   Policy
	now time.Duration
}

func inCrowd(place int, ticket int64) *crowded {
	c := &crowded{now: time.Minute + 500*time.Millisecond} // far from a gap
	c.p = Policy{
		ServerTime: func(now time.Duration) time.Duration { return now }, Jitter: func(time.Duration) time.Duration { return 0 },
	}.WithTimes()
	c.refuse(place, ticket)
	return c
}

func (c *crowded) refuse(place int, ticket int64) {
	c.Refused(&c.p, c.now, Refusal{Sent: c.now - time.Millisecond, Longest: 10 * time.Millisecond, Subscribers: 30, Place: place, Ticket: ticket, Holder: "a process"})
}

// hear returns how long the process waits after another's release before it tries.
func (c *crowded) hear() time.Duration {
	c.now += 2 * time.Millisecond
	return c.Hear(&c.p, c.now, 1) - c.now
}

// The script and this package use the same row size.
func TestCrowd_RowSize(t *testing.T) {
	script, err := os.ReadFile("../../scripts/lib/crowd.lua")
	require.NoError(t, err)
	assert.Contains(t, string(script), fmt.Sprintf("/ %d) end", rowSize))
	assert.Contains(t, string(script), fmt.Sprintf("'zrange', crowd, %d, %d,", rowSize, rowSize))
	assert.Contains(t, string(script), fmt.Sprintf("ticket %% %d == 0", rowSize))
}

// The first in line tries when the holder releases the lock. The others leave a slot for each process ahead. As soon as a process has seen a whole
// turn, its slots are as long as turns.
func TestCrowd_Places(t *testing.T) {
	assert.Equal(t, time.Duration(0), inCrowd(1, 0).hear())
	c := inCrowd(3, 0)
	assert.True(t, c.AsksPlace(), "it asks for its place each time")
	assert.Equal(t, 2*time.Millisecond, c.hear(), "two slots of a round trip")
	assert.Equal(t, 2*time.Millisecond+500*time.Microsecond, c.hear(), "one slot of a turn")
	assert.Equal(t, time.Duration(0), c.hear())
	assert.Equal(t, 29*time.Millisecond, inCrowd(30, 0).hear())
}

// A refusal corrects the place. If a turn took twice as long as usual, the process ahead has not tried.
func TestCrowd_CorrectsPlaces(t *testing.T) {
	c := inCrowd(2, 0)
	c.hear()
	c.hear()
	assert.Equal(t, 0, c.ahead)
	c.refuse(10, 0)
	assert.Equal(t, 10, c.ahead)
	c.hear()
	c.hear()
	assert.Equal(t, 8, c.ahead)
	c.now += 3 * time.Millisecond
	c.hear()
	assert.Equal(t, 6, c.ahead, "one has had a turn, and one is missing")
}

// A process keeps its place until the processes ahead have had their turns, even if these turns are much longer than Refusal.Longest.
func TestCrowd_LongTurns(t *testing.T) {
	for _, called := range []bool{false, true} {
		c := inCrowd(10, 131)
		long := func() {
			c.now += time.Second
			c.hear()
		}
		long()
		long()
		if called {
			c.refuse(100, 131)
			c.Called(c.now, 10*time.Millisecond)
		} else {
			c.refuse(20, 0)
		}
		for ahead := 19; ahead > 15; ahead-- {
			long()
			assert.Equal(t, ahead, c.ahead, "called: %v", called)
		}
	}
}

// A process far back waits for the call of its row, and tries again when the calls may have stopped. After the call it waits for releases.
func TestCrowd_WaitsForTheCall(t *testing.T) {
	c := inCrowd(100, 131)
	assert.Equal(t, int64(131/rowSize), c.Row())
	assert.Equal(t, callMin+time.Second, c.OpensAt()-c.now, "ten milliseconds for each turn")
	c.refuse(99, 131)
	assert.Equal(t, int64(131/rowSize), c.Row(), "its place has improved")
	c.Called(c.now, 10*time.Millisecond)
	assert.Zero(t, c.Row())
	assert.True(t, c.InCrowd())
	c.Joined(c.now)
	assert.Equal(t, 20*time.Millisecond, c.FirstTry(&c.p, c.now)-c.now)
	assert.Equal(t, 19, c.ahead-1, "sixteen, and three of its row")
	assert.Equal(t, callMax, inCrowd(10_000, 10_031).OpensAt()-c.now)
	c.Refused(&c.p, c.now, Refusal{Sent: c.now, Longest: 10 * time.Millisecond, Place: 10_000, Ticket: 10_031})
	assert.Equal(t, callMin, c.OpensAt()-c.now, "nobody has the lock, so those ahead may be dead")
}

// If no process ahead has had a turn between two refusals, the process no longer waits for a call.
func TestCrowd_NobodyCalls(t *testing.T) {
	c := inCrowd(100, 131)
	c.refuse(100, 131)
	assert.Equal(t, int64(131/rowSize), c.Row(), "it has not waited yet")
	c.now = c.OpensAt() + time.Millisecond
	c.refuse(100, 131)
	assert.Zero(t, c.Row())
	c = inCrowd(100, 131)
	c.now = c.OpensAt() + time.Millisecond
	c.refuse(101, 132)
	assert.Zero(t, c.Row(), "it has lost its ticket")
}

// After its turn, a process first gives the first in line time to try. Then it takes a new ticket, behind all others.
func TestCrowd_Ends(t *testing.T) {
	c := inCrowd(1, 0)
	c.hear()
	c.Won(&c.p, c.now, c.now)
	assert.True(t, c.InCrowd())
	c.After(&c.p, c.now, Ended{Sent: c.now - time.Millisecond, Began: c.now - 2*time.Millisecond, Longest: 10 * time.Millisecond, Receivers: 30, Listens: true})
	assert.False(t, c.InCrowd())
	assert.True(t, c.Yields())
	assert.Equal(t, time.Millisecond, c.OpensAt()-c.now)
	c.Won(&c.p, c.now, c.now)
	assert.False(t, c.Yields())
	c.After(&c.p, c.now, Ended{Sent: c.now - time.Millisecond, Receivers: 30, Listens: true})
	assert.True(t, c.Yields(), "it had the lock without a ticket")
	c.refuse(0, 0)
	assert.False(t, c.Yields(), "there is no crowd any more")
	c = inCrowd(100, 131)
	c.refuse(0, 0)
	assert.False(t, c.InCrowd(), "there is no crowd any more")
	assert.Zero(t, c.Row())
	assert.Equal(t, 29, c.ahead)
	c = inCrowd(100, 131)
	c.Left()
	assert.Zero(t, c.Row())
	assert.True(t, c.InCrowd(), "the next waiter has its ticket")
	c.After(&c.p, c.now, Ended{Sent: c.now, Listens: true, Receivers: 1})
	assert.Equal(t, crowd{}, c.crowd, "nobody else listens")
}

// A process in the crowd does not receive the messages of all turns, so it counts nobody as a mere listener.
func TestCrowd_CountsNoAbsent(t *testing.T) {
	c := inCrowd(1, 0)
	for range 2 * len(c.attendance.absent) {
		c.After(&c.p, c.now, Ended{Sent: c.now, Began: c.now, Receivers: 30, Listens: true})
		c.Waited()
		c.refuse(5, 0)
		c.Won(&c.p, c.now, c.now)
	}
	assert.Zero(t, c.MereListeners())
}

// A process that waits for the call of its row does not subscribe to releases, so there may be no subscribers at all. If such a process is refused,
// the refusal still gives the process a place, and ends its wait for a call. That is so even if there is no crowd any more.
func TestCrowd_NobodyListens(t *testing.T) {
	for _, place := range []int{0, 50} {
		c := inCrowd(100, 131)
		c.now = c.OpensAt()
		c.Refused(&c.p, c.now, Refusal{Sent: c.now, Longest: 10 * time.Millisecond, Place: place})
		assert.Zero(t, c.Row(), "place %d", place)
	}
}

// The wait for a call ends with the call, or when the process leaves the crowd. A waiter that comes after that tries at once.
func TestCrowd_NoWaitWithoutTheCrowd(t *testing.T) {
	c := inCrowd(100, 131)
	c.Called(c.now, 10*time.Millisecond)
	assert.LessOrEqual(t, c.OpensAt(), c.now)
	c = inCrowd(100, 131)
	c.Left()
	assert.LessOrEqual(t, c.OpensAt(), c.now)
}
