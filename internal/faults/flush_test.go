package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// The server forgets its scripts every 50 ms. No operation on a lock notices, and no held lease is lost.
func TestFault_ScriptsFlushed(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		options := holdfast.Options{Lease: 3 * time.Second, RenewBatch: 10}
		runtimes := []*holdfast.Runtime{p.Runtime(t, options), p.Runtime(t, options)}
		var held []*holdfast.Lease
		for range 30 {
			held = append(held, locktest.Acquire(t, p.Another(t).Lock(runtimes[0])))
		}
		s := newWeather(t, p)
		s.flush()
		rooms := []*room{{place: p.Another(t)}, {place: p.Another(t)}, {place: p.Another(t)}}
		var left atomic.Int64
		left.Store(int64(tries(p, 10_000, 300)))
		var visitors sync.WaitGroup
		for i := range 16 {
			visitors.Go(func() {
				for left.Add(-1) >= 0 && !t.Failed() {
					call := calls[rand.IntN(len(calls))]
					call(t, rooms[rand.IntN(len(rooms))], runtimes[i%2])
				}
			})
		}
		visitors.Wait()
		loads := func() int64 { return p.Server.CommandStats(t, "script|load")["script|load"] }
		locktest.Await(t, "scripts to be loaded again and again", func() bool { return loads() > 10 }) // renewals cause loads even when no visitor is left
		var holders sync.WaitGroup
		for _, lease := range held {
			holders.Go(func() {
				for range locktest.Scaled(20, 2) {
					awaitRenewal(t, lease)
				}
				assert.NoError(t, lease.Release(t.Context()))
			})
		}
		holders.Wait()
		s.end()
		for _, room := range rooms {
			assert.Zero(t, room.crowds.Load(), "two holders at a time")
		}
		t.Logf("scripts flushed %d times, loaded %d times", s.flushed.Load(), loads())
	})
}

// calls are operations on locks that other goroutines want too. An operation may fail only because another goroutine has the lock.
var calls = []func(t *testing.T, r *room, rt *holdfast.Runtime){
	func(t *testing.T, r *room, rt *holdfast.Runtime) { r.visit(t, rt) },
	func(t *testing.T, r *room, rt *holdfast.Runtime) {
		lease := locktest.Acquire(t, r.place.Lock(rt), holdfast.WithLease(time.Minute))
		assert.NoError(t, lease.Extend(t.Context(), time.Hour))
		r.enter(t, lease)
	},
	func(t *testing.T, r *room, rt *holdfast.Runtime) {
		lease, err := r.place.Lock(rt).TryAcquire(t.Context())
		if err == nil {
			r.enter(t, lease)
			return
		}
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
	},
	func(t *testing.T, r *room, rt *holdfast.Runtime) {
		owner := holdfast.WithOwner(rt.NewOwner())
		outer := locktest.Acquire(t, r.place.Lock(rt), owner)
		assert.NoError(t, locktest.Acquire(t, r.place.Lock(rt), owner).Release(t.Context()))
		r.enter(t, outer)
	},
	func(t *testing.T, r *room, rt *holdfast.Runtime) {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(time.Millisecond))
		defer cancel()
		if lease, err := r.place.Lock(rt).Acquire(ctx); err == nil {
			r.enter(t, lease)
		}
	},
	func(t *testing.T, r *room, rt *holdfast.Runtime) {
		_, err := r.place.Lock(rt).Inspect(t.Context())
		assert.NoError(t, err)
	},
	func(t *testing.T, r *room, rt *holdfast.Runtime) {
		alone := r.place.Another(t).Lock(rt)
		lease := locktest.Acquire(t, alone)
		freed, err := alone.ForceRelease(t.Context())
		require.NoError(t, err)
		assert.True(t, freed)
		assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
	},
}
