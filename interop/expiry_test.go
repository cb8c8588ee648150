package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// skewed is how long a permit stays taken for the other side after its lease has ended. Redisson writes expiries according to its clients' clocks,
// which may be wrong, so our scripts add this time.
const skewed = 10 * time.Second

// One side holds a lock with a lease that nobody renews. The other side gets the lock when the lease has ended, and not earlier. On our
// side the lease ends at its local deadline, a little before it ends in Redis, and the runtime then releases the lock. A late release by the old
// holder does not affect the new one.
func TestInterop_LeaseEndsForBothSides(t *testing.T) {
	everywhereAtOnce(t, leased, func(t *testing.T, m *meeting) {
		stalls := locktest.WatchStalls(t, &locktest.Place{Addr: m.addr})
		ours, theirs := m.ours(t, 0), m.theirs(t, 0)
		for _, d := range [][2]side{{theirs, ours}, {ours, theirs}} {
			holder, waiter := d[0], d[1]
			t.Run(holder.String()+" holds", func(t *testing.T) {
				n := m.another(t)
				const lease = time.Second
				due := lease
				switch {
				case holder == ours:
					due -= lease/100 + 2*time.Millisecond // the local deadline
				case n.kind.counter == "permit":
					due += skewed
				}
				began := time.Now()
				held, waits := n.held(t, holder, lease), waiter.party(n.kind.waiter(), n.name)
				took := at(t, taking(t, waits)).Sub(began) // taking(), because the lease may end before the waiter sleeps, and waiting() would then fail
				n.over(t, holder, held)
				assert.GreaterOrEqual(t, took, due-5*time.Millisecond)
				assert.Less(t, took, due+2*time.Second+stalls.Slack())
				n.stillHeld(t, waits)
				m.report(t, fmt.Sprintf(expires, holder), fmt.Sprintf("%s of %s", seconds(took), seconds(due)))
			})
		}
	})
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }

// over checks that a holder has learned of its loss, and that its release returns an error.
func (m *meeting) over(t *testing.T, s side, p party) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	held, err := p.held(ctx)
	require.NoError(t, err)
	assert.False(t, held, "%s is still held", m.kind.name)
	err = p.give(ctx)
	switch {
	case s.String() == "Go":
		assert.ErrorIs(t, err, holdfast.ErrLeaseLost)
	case m.kind.theirs != "red":
		assert.ErrorIs(t, err, errDriver)
	}
}

// stillHeld checks that a party still holds the lock, and releases it.
func (m *meeting) stillHeld(t *testing.T, p party) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	held, err := p.held(ctx)
	require.NoError(t, err)
	if theirs, ok := p.(*javaParty); !ok || theirs.kind.theirs != "red" { // with only two of three members, Redisson has the red lock, but answers false
		assert.True(t, held, "%s is lost", m.kind.name)
	}
	require.NoError(t, p.give(ctx))
}
