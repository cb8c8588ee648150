package locktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// Acquire takes a lock that must come free in time. The test has the lease until it ends, even if it does nothing with it.
func Acquire(t *testing.T, lock *holdfast.Lock, options ...holdfast.AcquireOption) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	lease, err := lock.Acquire(ctx, options...)
	require.NoError(t, err)
	keep(t, lease)
	return lease
}

// kept are the leases of the tests that run.
var kept = struct {
	sync.Mutex
	leases map[*testing.T][]*holdfast.Lease
}{leases: map[*testing.T][]*holdfast.Lease{}}

// keep has a test have a lease until it ends: else the runtime would give back what the test does not mention any more.
func keep(t *testing.T, lease *holdfast.Lease) {
	kept.Lock()
	defer kept.Unlock()
	if kept.leases[t] == nil {
		t.Cleanup(func() {
			kept.Lock()
			defer kept.Unlock()
			delete(kept.leases, t)
		})
	}
	kept.leases[t] = append(kept.leases[t], lease)
}

// Release gives a lease back that must be held.
func Release(t *testing.T, lease *holdfast.Lease) {
	t.Helper()
	require.NoError(t, lease.Release(t.Context()))
}

// Await waits until something is so.
func Await(t *testing.T, what string, so func() bool) {
	t.Helper()
	require.Eventually(t, so, Patience, 2*time.Millisecond, "waiting for %s", what)
}

// Closed waits for a channel to be closed and tells when that was seen.
func Closed(t *testing.T, what string, done <-chan struct{}) time.Time {
	t.Helper()
	select {
	case <-done:
	case <-time.After(Patience):
		require.Fail(t, "waiting for "+what)
	}
	return time.Now()
}

// Open fails the test if the channel is closed already.
func Open(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
		require.Fail(t, what+" came too early")
	default:
	}
}

// Stays fails the test if something does not stay so for as long as that.
func Stays(t *testing.T, what string, d time.Duration, so func() bool) {
	t.Helper()
	looks := time.NewTicker(5 * time.Millisecond)
	defer looks.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-looks.C {
		require.True(t, so(), what)
	}
}

// Renewed waits until the watchdog has renewed a lease.
func Renewed(t *testing.T, lease *holdfast.Lease) {
	t.Helper()
	Await(t, "a renewal", Moved(lease.ExpiresAt))
}

// Moved reports whether a deadline has moved since, by a renewal. The same instant may be converted to slightly different
// times (see Engine.Time), by as much as the process was paused between reading one clock and the other.
func Moved(deadline func() time.Time) func() bool {
	var first time.Time
	for range 5 {
		if looked := deadline(); looked.After(first) {
			first = looked
		}
	}
	return func() bool { return deadline().Sub(first) > 50*time.Millisecond }
}

// AcquirePermit takes a permit likewise.
func AcquirePermit(t *testing.T, s *holdfast.PermitSemaphore, options ...holdfast.AcquireOption) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	lease, err := s.Acquire(ctx, options...)
	require.NoError(t, err)
	keep(t, lease)
	return lease
}

// Granted is the lease of an acquire that is in flight.
func Granted(t *testing.T, pending *holdfast.Pending) *holdfast.Lease {
	t.Helper()
	Closed(t, "a grant", pending.Done())
	lease, err := pending.Lease()
	require.NoError(t, err)
	return lease
}

// AssertTaken shows that the place's lock is held: nobody else in these runtimes can acquire it.
func AssertTaken(t *testing.T, p *Place, runtimes ...*holdfast.Runtime) {
	t.Helper()
	for _, rt := range runtimes {
		for _, options := range [][]holdfast.AcquireOption{nil, {holdfast.WithOwner(rt.NewOwner())}} {
			_, err := p.Lock(rt).TryAcquire(t.Context(), options...)
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		}
	}
}
