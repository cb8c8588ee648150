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

// Each side frees what the other one holds: a lock by force, a permit by its id, or a semaphore by a plain release. A waiter on the freeing
// side is woken. A holder on our side learns within a third of its lease that it has lost the lock.
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
				if n.kind.counter != "semaphore" { // a semaphore's permits have no holder
					if ours, ok := held.(*goParty); ok {
						told := locktest.Closed(t, "the loss", ours.lease.Done()).Sub(done)
						assert.LessOrEqual(t, told, lease/3+5*stall+stalls.Slack())
						result += fmt.Sprintf(", reported in %s", seconds(told))
					}
					n.over(t, holder, held)
				}
				n.stillHeld(t, waits)
				m.report(t, fmt.Sprintf(forced, other), result)
			})
		}
	})
}
