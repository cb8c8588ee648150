package interop

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// The watchdog of each side renews a lock for longer than its lease, until a waiter on the other side gives up.
func TestInterop_WatchdogOutlastsPatience(t *testing.T) {
	const lease = 3 * time.Second // so long because a busy machine may renew two seconds late
	const patience = 5 * lease / 2
	everywhereAtOnce(t, func(k kind) bool { return k.renewed != nil }, func(t *testing.T, m *meeting) {
		var both sync.WaitGroup
		defer both.Wait()
		for _, d := range [][2]side{{m.theirs(t, lease), m.ours(t, 0)}, {m.ours(t, lease), m.theirs(t, 0)}} {
			holder, waiter := d[0], d[1]
			if m.kind.renewed[holder.String()] {
				n := m.another(t)
				held := n.held(t, holder, 0)
				both.Go(func() { n.outlast(t, held, waiter, patience) })
				m.report(t, fmt.Sprintf(watchdog, holder), fmt.Sprintf("lease %s, waited %s", lease, patience))
			}
		}
	})
}

func (m *meeting) outlast(t *testing.T, held party, waiter side, patience time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*locktest.Patience)
	defer cancel()
	waits := waiter.party(m.kind.waiter(), m.name)
	began := time.Now()
	got, err := waits.try(ctx, patience)
	took := time.Since(began)
	assert.NoError(t, err)
	assert.False(t, got, "%s got it", waiter)
	assert.GreaterOrEqual(t, took, patience*9/10, "%s waited", waiter)
	still, err := held.held(ctx)
	assert.NoError(t, err)
	assert.True(t, still, "it is still held")
	assert.NoError(t, held.give(ctx))
	assert.NoError(t, waits.take(ctx, 0))
	assert.NoError(t, waits.give(ctx))
}
