package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// The other side frees what is held, by force, by a permit's id, or just so: a waiter of the other side is woken, and a holder of
// ours is told within a third of its lease.
func TestInterop_ForcedByTheOtherSide(t *testing.T) {
	const lease = 1500 * time.Millisecond
	everywhereAtOnce(t, func(k kind) bool { return k.counter != "latch" }, func(t *testing.T, m *meeting) {
		stalls := locktest.WatchStalls(t, &locktest.Place{Addr: m.addr})
		for _, d := range [][2]side{{m.theirs(t, 0), m.ours(t, 0)}, {m.ours(t, lease), m.theirs(t, 0)}} {
			holder, other := d[0], d[1]
			t.Run("by "+other.String(), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
				defer cancel()
				n := m.another(t)
				held, waits := n.held(t, holder, 0), other.party(n.kind.waiter(), n.name)
				granted := n.waiting(t, other, waits)
				stalls.Take()
				began := time.Now()
				require.NoError(t, other.oust(ctx, n.kind, n.name, held))
				done := time.Now()
				woken := at(t, granted).Sub(began)
				stall := stalls.Take()
				assert.Less(t, woken, time.Second+5*stall)
				result := fmt.Sprintf("woken in %s ms", tenths(woken))
				if n.kind.counter != "semaphore" { // whose permits have no holder
					if ours, ok := held.(*goParty); ok {
						told := locktest.Closed(t, "the loss", ours.lease.Done()).Sub(done)
						assert.LessOrEqual(t, told, lease/3+5*stall+stalls.Slack())
						result += fmt.Sprintf(", told in %s", seconds(told))
					}
					n.over(t, holder, held)
				}
				n.stillHeld(t, waits)
				m.report(t, fmt.Sprintf(forced, other), result)
			})
		}
	})
}
