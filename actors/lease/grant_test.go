package lease

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The holder's deadline is earlier than the expiry of the key on the server. That holds for every lease, every delay on the way to the
// server, and every rate of the server's clock within half a percent of the local rate.
func TestGrant_DeadlineComesBeforeTheServers(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for range 50_000 {
		length := Min + upTo(Max-Min)>>random.IntN(21) // every order of magnitude is equally likely
		length = max(length, Min)
		sent := upTo(24 * time.Hour)
		executed := sent + upTo(10*time.Millisecond)<<random.IntN(10)
		rate := 1 + (random.Float64()-0.5)/100 // the rate of the server's clock relative to the local clock

		// The server truncates the lease and its own clock to whole milliseconds. phase is the fraction that it cuts off its clock when it executes
		// the script.
		phase := upTo(time.Millisecond)
		lasts := length.Truncate(time.Millisecond) - phase
		expires := executed + time.Duration(float64(lasts)/rate)

		require.LessOrEqual(t, Deadline(sent, length), expires, "seed %d: lease %v, rate %v", seed, length, rate)
	}
}

// A renewal does not move the deadline if its answer comes after the deadline, or if the grant has ended.
func TestGrant_ExtendsOnlyWhileItLasts(t *testing.T) {
	t.Parallel()
	deadline := Deadline(0, time.Second)
	fresh := func() *Grant { return newTestGrant(deadline) }

	g := fresh()
	assert.True(t, g.Extend(deadline-1, 2*time.Second))
	assert.Equal(t, 2*time.Second, g.Until())

	g = fresh()
	assert.False(t, g.Extend(deadline, 2*time.Second), "its deadline is now")
	assert.Equal(t, deadline, g.Until())

	g = fresh()
	g.End()
	assert.False(t, g.Extend(0, 2*time.Second))
	assert.Zero(t, g.Until())
}

// A renewal sets a TTL. Usually, this is the length of the lease. It is shorter if Most comes sooner, and longer if Least comes later, even if Least
// is after Most.
func TestGrant_RenewalHasBounds(t *testing.T) {
	t.Parallel()
	g := newTestGrant(Deadline(0, time.Second))
	assert.Equal(t, time.Second, g.Renewal(5*time.Second))
	assert.False(t, g.Final())

	g.Most = 10 * time.Second
	assert.Equal(t, time.Second, g.Renewal(9*time.Second))
	assert.False(t, g.Final())
	assert.Equal(t, 400*time.Millisecond, g.Renewal(9600*time.Millisecond))
	g.Move(Deadline(9500*time.Millisecond, time.Second/2))
	assert.True(t, g.Final())
	assert.True(t, g.Extend(9600*time.Millisecond, time.Minute))
	assert.Equal(t, 10*time.Second, g.Until(), "not past it")
	assert.Positive(t, g.Renewal(11*time.Second))

	g.KeepFor(5*time.Second, 15*time.Second)
	g.KeepFor(5*time.Second, 10*time.Second)
	g.KeepFor(30*time.Second, 0)
	assert.Equal(t, 20*time.Second, g.Least())
	assert.Equal(t, 12*time.Second, g.Missing(8*time.Second))
	assert.Equal(t, 12*time.Second, g.Renewal(8*time.Second))
	assert.Equal(t, 10001*time.Millisecond, g.Renewal(10*time.Second-1), "rounded up")
	assert.Zero(t, g.Missing(21*time.Second))
}

func newTestGrant(deadline time.Duration) *Grant {
	g := &Grant{ID: "g1", Lease: time.Second, Watched: true}
	g.Begin(deadline)
	return g
}
