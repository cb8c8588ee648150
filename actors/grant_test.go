package actors

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever the lease, however long the way to the server, and whatever its clock's rate within half a percent of ours: the holder's
// deadline comes before the server lets the key go.
func TestGrant_DeadlineComesBeforeTheServers(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for range 50_000 {
		lease := MinLease + upTo(MaxLease-MinLease)>>random.IntN(21) // short ones as often as long ones
		lease = max(lease, MinLease)
		sent := upTo(24 * time.Hour)
		executed := sent + upTo(10*time.Millisecond)<<random.IntN(10)
		rate := 1 + (random.Float64()-0.5)/100 // of the server's clock, by ours

		// The server cuts the lease and its own clock to milliseconds. Its clock reads phase when it executes the script.
		phase := upTo(time.Millisecond)
		lasts := lease.Truncate(time.Millisecond) - phase
		expires := executed + time.Duration(float64(lasts)/rate)

		require.LessOrEqual(t, deadlineOf(sent, lease), expires, "seed %d: lease %v, rate %v", seed, lease, rate)
	}
}

// A renewal moves the deadline of a grant that lasts, and nothing else does: neither one that is late, nor one of a grant that is over.
func TestGrant_ExtendsOnlyWhileItLasts(t *testing.T) {
	t.Parallel()
	fresh := func() *Grant {
		return newGrant(&lockState{}, trial{id: "g1", lease: time.Second, watched: true}, deadlineOf(0, time.Second))
	}
	deadline := deadlineOf(0, time.Second)

	g := fresh()
	assert.True(t, g.extend(deadline-1, 2*time.Second))
	assert.Equal(t, 2*time.Second, g.until())

	g = fresh()
	assert.False(t, g.extend(deadline, 2*time.Second), "its deadline is now")
	assert.Equal(t, deadline, g.until())

	g = fresh()
	g.over()
	assert.False(t, g.extend(0, 2*time.Second))
	assert.Zero(t, g.until())
}

// No two grants of a runtime have one ID, also when the operating system's chance gives the same again and again.
func TestGrant_IDsAreUsedOnce(t *testing.T) {
	t.Parallel()
	e := &Engine{id: "f4a0c9de-8f0f-4d4e-b7b9-5d1c3b1d2e4f", salt: func() uint64 { return 7 }}
	e.numbers.Store(1<<40 - 500) // over what is left of a number beside the salt
	seen := map[string]bool{}
	for range 1000 {
		id := e.newGrantID()
		require.False(t, seen[id], id)
		require.True(t, strings.HasPrefix(id, e.id+":"), id)
		seen[id] = true
	}
}
