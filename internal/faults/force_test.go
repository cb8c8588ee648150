package faults_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Redis may execute a force-release after it has executed an acquire of the same runtime, and before the runtime has the acquire's answer. Then the
// acquirer either learns of the force-release at once, or has a grant that Redis still has. It never keeps a valid lease of a freed grant. A fixed
// lease is not renewed, so the acquirer would notice such a loss only when the lease ends.
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
			t.Logf("the acquire was first %d times", forced)
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

// exclusive returns the kinds of lock that exclude each other under one name.
func exclusive() (kinds []locktest.Kind) {
	for _, kind := range locktest.Kinds {
		if kind.Mode == "exclusive" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// A caller that frees a lock by force need not know the lock's kind. A holder in the same process learns of the loss at once, even if its lease is
// not renewed.
func TestFault_ForceReleaseThroughAnotherKind(t *testing.T) {
	t.Parallel()
	place := locktest.OnServerOfItsOwn(t)
	rt := place.Runtime(t, holdfast.Options{})
	for _, force := range exclusive() {
		for _, kind := range exclusive() {
			t.Run(force.Name+" frees "+kind.Name, func(t *testing.T) {
				t.Parallel()
				p := place.Another(t)
				p.Kind = kind
				lease := locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(time.Hour))
				waiting := p.Lock(rt).AcquireAsync(t.Context())
				p.WaitForWaiting(t, rt, 1)
				began := time.Now()
				forced, err := force.Lock(rt, p.Name).ForceRelease(t.Context())
				require.NoError(t, err)
				require.True(t, forced)
				locktest.Closed(t, "the loss", lease.Done())
				assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
				next, err := waiting.Lease()
				require.NoError(t, err)
				assert.Less(t, time.Since(began), 500*time.Millisecond+locktest.Slack())
				locktest.Release(t, next)
			})
		}
	}
}

// A force-release through the lock's own kind wakes the waiters of every kind.
func TestFault_ForceReleaseWakesEveryKind(t *testing.T) {
	t.Parallel()
	place := locktest.OnServerOfItsOwn(t)
	one, other := place.Runtime(t, holdfast.Options{}), place.Runtime(t, holdfast.Options{})
	for _, held := range exclusive() {
		for _, waits := range exclusive() {
			t.Run(waits.Name+" waits for "+held.Name, func(t *testing.T) {
				t.Parallel()
				p := place.Another(t)
				p.Kind = waits
				locktest.Acquire(t, held.Lock(one, p.Name))
				waiting := p.Lock(other).AcquireAsync(t.Context())
				p.WaitForWaiter(t, other)
				began := time.Now()
				forced, err := held.Lock(one, p.Name).ForceRelease(t.Context())
				require.NoError(t, err)
				require.True(t, forced)
				lease, err := waiting.Lease()
				require.NoError(t, err)
				assert.Less(t, time.Since(began), 500*time.Millisecond+locktest.Slack())
				locktest.Release(t, lease)
			})
		}
	}
}

// When a process releases permits by their IDs, or deletes the semaphore, the leases of these permits end in that process. That holds for fixed
// leases, too, although no renewal would notice the loss.
func TestFault_PermitsEndedByTheirIDs(t *testing.T) {
	t.Parallel()
	for _, fixed := range []bool{true, false} {
		for name, end := range map[string]func(s *holdfast.PermitSemaphore, ids ...string) error{
			"ReleaseID": func(s *holdfast.PermitSemaphore, ids ...string) error { return s.ReleaseID(t.Context(), ids...) },
			"Delete":    func(s *holdfast.PermitSemaphore, _ ...string) error { _, err := s.Delete(t.Context()); return err },
		} {
			t.Run(fmt.Sprintf("%s/fixed %v", name, fixed), func(t *testing.T) {
				t.Parallel()
				p := locktest.OnServerOfItsOwn(t)
				s := p.Runtime(t, holdfast.Options{Lease: 6 * time.Second}).PermitSemaphore(p.Name)
				_, err := s.TrySetPermits(t.Context(), 3)
				require.NoError(t, err)
				var options []holdfast.AcquireOption
				if fixed {
					options = append(options, holdfast.WithLease(time.Hour))
				}
				first, second := locktest.AcquirePermit(t, s, options...), locktest.AcquirePermit(t, s, options...)
				kept := locktest.AcquirePermit(t, s, options...)
				require.NoError(t, end(s, first.ID(), second.ID()))
				for _, lease := range []*holdfast.Lease{first, second} {
					locktest.Closed(t, "the loss", lease.Done())
					assert.False(t, lease.Valid())
					assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
				}
				if name == "ReleaseID" {
					assert.True(t, kept.Valid())
					locktest.Release(t, kept)
					return
				}
				locktest.Closed(t, "the loss", kept.Done())
			})
		}
	}
}
