package faults_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// A force-release may be executed between an acquire of the same runtime and its answer. The acquirer then either learns of it at once,
// or gets a grant that Redis has: never one that was freed, which nobody would notice before a fixed lease ends.
func TestFault_ForceReleaseMeetsAnAcquire(t *testing.T) {
	t.Parallel()
	readers := locktest.Kind{Name: "read lock", Lock: func(rt *holdfast.Runtime, name string) *holdfast.Lock { return rt.RWLock(name).Read() }}
	for _, kind := range append([]locktest.Kind{readers}, locktest.Kinds...) {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			p := locktest.Somewhere(t)
			p.Kind = kind
			rt := p.Runtime(t, holdfast.Options{})
			forced := 0
			for range locktest.Scaled(1_000, 50) {
				if forceMeetsAcquire(t, p.Another(t), rt) {
					forced++
				}
				if t.Failed() {
					break
				}
			}
			t.Logf("%d times the acquire came first", forced)
		})
	}
}

func forceMeetsAcquire(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) (forced bool) {
	lock := p.Lock(rt)
	var both sync.WaitGroup
	both.Go(func() {
		var err error
		forced, err = lock.ForceRelease(t.Context())
		assert.NoError(t, err)
	})
	lease, err := lock.Acquire(t.Context(), holdfast.WithLease(20*time.Second))
	both.Wait()
	if !assert.NoError(t, err) {
		return forced
	}
	if lease.Valid() {
		assert.Contains(t, p.Fields(t), lease.ID(), "a valid lease that Redis does not have")
		assert.NoError(t, lease.Release(t.Context()))
	}
	locktest.Await(t, "the lock to be free", func() bool { return !p.Exists(t) })
	return forced
}
