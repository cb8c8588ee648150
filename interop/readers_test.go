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

// Readers of both sides share a read/write lock. A writer waits for the last of them, no matter on which side it is. The writer's release
// wakes the readers of both sides.
func TestInterop_ReadersAndAWriter(t *testing.T) {
	everywhere(t, func(k kind) bool { return k.theirs == "read" }, func(t *testing.T, m *meeting) {
		stalls := locktest.WatchStalls(t, &locktest.Place{Addr: m.addr})
		ctx, cancel := context.WithTimeout(t.Context(), 2*locktest.Patience)
		defer cancel()
		ours, theirs := m.ours(t, 0), m.theirs(t, 0)
		for _, d := range [][2]side{{theirs, ours}, {ours, theirs}} {
			last, writer := d[0], d[1]
			n := m.another(t)
			readers := []party{n.held(t, ours, 0), n.held(t, theirs, 0), n.held(t, ours, 0), n.held(t, theirs, 0), n.held(t, last, 0)}
			w := writer.party(n.kind.waiter(), n.name)
			written := taking(t, w)
			for _, r := range readers[:len(readers)-1] {
				require.NoError(t, r.give(ctx))
				asleep(t, written)
			}
			n.listened(t) // our writer subscribes only now: while readers of its own process held the lock, it waited inside the process
			asleep(t, written)
			stalls.Take()
			began := time.Now()
			require.NoError(t, readers[len(readers)-1].give(ctx))
			woken := at(t, written).Sub(began)
			assert.Less(t, woken, time.Second+stalls.Slack())

			var waits []<-chan grant
			for _, r := range readers {
				waits = append(waits, taking(t, r))
			}
			n.listened(t)
			asleep(t, waits...)
			began = time.Now()
			require.NoError(t, w.give(ctx))
			var took []time.Duration
			for _, read := range waits {
				took = append(took, at(t, read).Sub(began))
			}
			assert.Less(t, slices.Max(took), time.Second+stalls.Slack())
			for _, r := range readers {
				require.NoError(t, r.give(ctx))
			}
			m.report(t, fmt.Sprintf("5 readers of both sides, the last is %s, a writer of %s", last, writer),
				fmt.Sprintf("writer woken in %s ms, then all readers in %s ms", tenths(woken), tenths(slices.Max(took))))
		}
	})
}
