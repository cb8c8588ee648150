package locktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// Acquire acquires a lock, which must succeed in time. A reference to the lease is kept until the end of the test.
func Acquire(t *testing.T, lock *holdfast.Lock, options ...holdfast.AcquireOption) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	lease, err := lock.Acquire(ctx, options...)
	require.NoError(t, err)
	keep(t, lease)
	return lease
}

// briefly is the lease of AcquireBriefly.
const briefly = 50 * time.Millisecond

// AcquireBriefly acquires a lock for 50 ms, without renewal. It tries again if a busy machine makes the reply come after that time.
func AcquireBriefly(t *testing.T, lock *holdfast.Lock) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		lease, err := lock.Acquire(ctx, holdfast.WithLease(briefly))
		if err != nil && ctx.Err() == nil {
			continue
		}
		require.NoError(t, err)
		keep(t, lease)
		return lease
	}
}

// kept holds references to the leases of running tests.
var kept = struct {
	sync.Mutex
	leases map[*testing.T][]*holdfast.Lease
}{leases: map[*testing.T][]*holdfast.Lease{}}

// keep keeps a reference to a lease until the test ends. Otherwise the runtime would release a lease that the test does not refer to any more.
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

// Release releases a lease, which must be held.
func Release(t *testing.T, lease *holdfast.Lease) {
	t.Helper()
	require.NoError(t, lease.Release(t.Context()))
}

// Await waits until `so` returns true.
func Await(t *testing.T, what string, so func() bool) {
	t.Helper()
	require.Eventually(t, so, Patience, 2*time.Millisecond, "waiting for %s", what)
}

// Closed waits for a channel to be closed, and returns the time at which it saw that.
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
		require.Fail(t, what+" was too early")
	default:
	}
}

// Stays calls `so` again and again for d, and fails the test if it ever returns false.
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

// Moved returns a function that reports whether a renewal has moved the deadline since Moved was called. The function ignores small differences,
// because they also occur without a renewal: Engine.Time reads two clocks, one after the other. If the process is paused between the two readings,
// the same deadline is converted to an earlier time.
func Moved(deadline func() time.Time) func() bool {
	var first time.Time
	for range 5 {
		if looked := deadline(); looked.After(first) {
			first = looked
		}
	}
	return func() bool { return deadline().Sub(first) > 50*time.Millisecond }
}

// AcquirePermit is Acquire for a permit.
func AcquirePermit(t *testing.T, s *holdfast.PermitSemaphore, options ...holdfast.AcquireOption) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	lease, err := s.Acquire(ctx, options...)
	require.NoError(t, err)
	keep(t, lease)
	return lease
}

// Granted waits for an acquire that is in flight, and returns its lease.
func Granted(t *testing.T, pending *holdfast.Pending) *holdfast.Lease {
	t.Helper()
	Closed(t, "a grant", pending.Done())
	lease, err := pending.Lease()
	require.NoError(t, err)
	return lease
}

// AssertTaken asserts that the place's lock is held: nobody else in these runtimes can acquire it.
func AssertTaken(t *testing.T, p *Place, runtimes ...*holdfast.Runtime) {
	t.Helper()
	for _, rt := range runtimes {
		for _, options := range [][]holdfast.AcquireOption{nil, {holdfast.WithOwner(rt.NewOwner())}} {
			_, err := p.Lock(rt).TryAcquire(t.Context(), options...)
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		}
	}
}
