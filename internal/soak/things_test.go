package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// thing is a lock or a semaphore that users contend for. Its spans are the times for which it was held. At most `limit` of them may overlap. Spans of
// readers may overlap freely.
type thing struct {
	name  string
	limit int
	// outlasts is set if a lost permit stays taken. In a PermitSemaphore it stays for ten seconds after its lease, in a Semaphore for ever.
	outlasts bool
	// use acquires the thing, holds it for a while, and releases it.
	use func(ctx context.Context, rt *holdfast.Runtime, d time.Duration, options ...holdfast.AcquireOption) error

	spans, readers locktest.Spans
	tokens         tokens
}

const semaphore = "semaphore"

// newThings returns two locks of each kind in locktest.Kinds, and one read/write lock, one PermitSemaphore and one Semaphore.
func newThings(w *world) (things []*thing) {
	for _, kind := range locktest.Kinds {
		for i := range 2 {
			thing := &thing{name: fmt.Sprintf("%s-%d", kind.Name, i), limit: 1}
			thing.use = func(ctx context.Context, rt *holdfast.Runtime, d time.Duration, options ...holdfast.AcquireOption) error {
				return thing.hold(ctx, kind.Lock(rt, thing.name), &thing.spans, d, options)
			}
			things = append(things, thing)
		}
	}
	return append(things, newReadWrite(), newPermits(w), newSemaphore(w))
}

func (g *thing) hold(ctx context.Context, lock *holdfast.Lock, spans *locktest.Spans, d time.Duration, options []holdfast.AcquireOption) error {
	call := time.Now()
	lease, err := lock.Acquire(ctx, options...)
	if err != nil {
		return err
	}
	g.tokens.add(call, lease)
	spans.Hold(lease, d)
	return lease.Release(context.Background())
}

func newReadWrite() *thing {
	g := &thing{name: "read/write", limit: 1}
	g.use = func(ctx context.Context, rt *holdfast.Runtime, d time.Duration, options ...holdfast.AcquireOption) error {
		if rand.IntN(3) == 0 {
			return g.hold(ctx, rt.RWLock(g.name).Write(), &g.spans, d, options)
		}
		return g.hold(ctx, rt.RWLock(g.name).Read(), &g.readers, d, options)
	}
	return g
}

func newPermits(w *world) *thing {
	g := &thing{name: "permits", limit: 2, outlasts: true}
	_, err := w.processes[0].rt.Load().PermitSemaphore(g.name).TrySetPermits(context.Background(), g.limit)
	require.NoError(w.t, err)
	g.use = func(ctx context.Context, rt *holdfast.Runtime, d time.Duration, options ...holdfast.AcquireOption) error {
		lease, err := rt.PermitSemaphore(g.name).Acquire(ctx, options...)
		if err != nil {
			return err
		}
		g.spans.Hold(lease, d)
		return lease.Release(context.Background())
	}
	return g
}

// newSemaphore returns a semaphore. Its permits have no leases, so the permits of a runtime that is closed stay taken until refill restores them.
// The test fails if users ever hold more permits than the limit, unless failovers may have forgotten some of the holders.
func newSemaphore(w *world) *thing {
	g := &thing{name: semaphore, limit: 3, outlasts: true}
	_, err := w.processes[0].rt.Load().Semaphore(g.name).TrySetPermits(context.Background(), g.limit)
	require.NoError(w.t, err)
	var inside atomic.Int64
	g.use = func(ctx context.Context, rt *holdfast.Runtime, d time.Duration, _ ...holdfast.AcquireOption) error {
		s := rt.Semaphore(g.name)
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		if n := inside.Add(1); n > int64(g.limit)*(1+w.counts.forgetful.Load()) {
			w.wrong("%d holders of %d permits", n, g.limit)
		}
		<-time.After(d)
		inside.Add(-1)
		return s.Release(context.Background(), 1)
	}
	return g
}
