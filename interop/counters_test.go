package interop

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Both sides hold permits, three in all, and both have waiters. Each permit is released by the side that does not hold it, and all waiters
// are woken.
func TestInterop_PermitsReleasedByTheOtherSide(t *testing.T) {
	applies := func(k kind) bool { return k.counter == "semaphore" || k.counter == "permit" }
	everywhere(t, applies, func(t *testing.T, m *meeting) {
		stalls := locktest.WatchStalls(t, &locktest.Place{Addr: m.addr})
		ctx, cancel := context.WithTimeout(t.Context(), 2*locktest.Patience)
		defer cancel()
		ours, theirs := m.ours(t, 0), m.theirs(t, 0)
		sides := []side{theirs, ours, theirs}
		require.NoError(t, ours.set(ctx, m.kind, m.name, len(sides)))
		var holders []party
		for _, s := range sides {
			holders = append(holders, m.held(t, s, 0))
		}
		var waits []<-chan grant
		for _, s := range sides {
			waits = append(waits, m.waiting(t, s, s.party(m.kind, m.name)))
		}
		stalls.Take()
		began := time.Now()
		for i, releaser := range []side{ours, theirs, ours} {
			require.NoError(t, releaser.oust(ctx, m.kind, m.name, holders[i]))
		}
		var took []time.Duration
		for _, granted := range waits {
			took = append(took, at(t, granted).Sub(began))
		}
		assert.Less(t, slices.Max(took), time.Second+stalls.Slack())
		m.report(t, "3 permits of both sides released by the other side", fmt.Sprintf("all 3 waiters of both sides woken in %s ms", tenths(slices.Max(took))))
	})
}

// Both sides count a latch down alternately. The last count releases the waiters of both sides, no matter which side counts it.
func TestInterop_LatchCountedDownFromBoth(t *testing.T) {
	everywhere(t, func(k kind) bool { return k.counter == "latch" }, func(t *testing.T, m *meeting) {
		stalls := locktest.WatchStalls(t, &locktest.Place{Addr: m.addr})
		ctx, cancel := context.WithTimeout(t.Context(), 2*locktest.Patience)
		defer cancel()
		ours, theirs := m.ours(t, 0), m.theirs(t, 0)
		for _, sides := range [][]side{{ours, theirs}, {theirs, ours}} {
			const count = 10
			n := m.another(t)
			require.NoError(t, sides[0].set(ctx, n.kind, n.name, count))
			var waits []<-chan grant
			for i := range 6 {
				waits = append(waits, n.waiting(t, sides[i%2], sides[i%2].party(n.kind, n.name)))
			}
			var began time.Time
			for i := range count {
				asleep(t, waits...)
				stalls.Take()
				began = time.Now()
				require.NoError(t, sides[i%2].party(n.kind, n.name).give(ctx))
			}
			var took []time.Duration
			for _, released := range waits {
				took = append(took, at(t, released).Sub(began))
			}
			assert.Less(t, slices.Max(took), time.Second+stalls.Slack())
			m.report(t, fmt.Sprintf("set by %s, counted down 10 times, by Go and Java alternately, the last time by %s", sides[0], sides[1]),
				fmt.Sprintf("6 waiters of both sides released in %s ms", tenths(slices.Max(took))))
		}
	})
}
