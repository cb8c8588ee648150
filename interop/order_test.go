package interop

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Waiters of both sides join a fair lock's queue alternately, and get the lock in that order.
func TestInterop_FairOrderOfBothSides(t *testing.T) {
	everywhere(t, func(k kind) bool { return k.theirs == "fair" }, func(t *testing.T, m *meeting) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*locktest.Patience)
		defer cancel()
		ours, theirs := m.ours(t, 0), m.theirs(t, 0)
		for _, holder := range []side{ours, theirs} {
			n := m.another(t)
			waiters := locktest.Scaled(40, 10)
			held := n.held(t, holder, 0)
			var mu sync.Mutex
			var served []int
			var group sync.WaitGroup
			for i := range waiters {
				p := []side{theirs, ours}[i%2].party(n.kind, n.name)
				group.Go(func() {
					if assert.NoError(t, p.take(ctx, 0)) {
						mu.Lock()
						served = append(served, i)
						mu.Unlock()
						assert.NoError(t, p.give(ctx))
					}
				})
				locktest.Await(t, "the waiter in the queue", func() bool {
					return n.look.LLen(ctx, "redisson_lock_queue:{"+n.name+"}").Val() == int64(i+1)
				})
			}
			began := time.Now()
			require.NoError(t, held.give(ctx))
			group.Wait()
			took := time.Since(began)
			require.Len(t, served, waiters)
			assert.IsIncreasing(t, served)
			m.report(t, fmt.Sprintf("%d waiters, Go and Java alternately, while %s holds the lock", waiters, holder), fmt.Sprintf("served in order, %s ms each", tenths(took/time.Duration(waiters))))
		}
	})
}
