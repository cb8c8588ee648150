package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

const (
	perRound = 20
	// window is the longest time from the sending of an attempt to its execution, if the lease is 30 s.
	window = 2 * time.Second
)

// late has the two situations in which a delayed request may arrive at Redis. Either the client still waits for the reply, or it has given up the
// connection.
var late = map[string]struct {
	patience time.Duration // of the client
	orphan   time.Duration // how long an orphan may stay once all requests have arrived
}{
	"connection kept": {0, soon},
	// When a connection is gone, nobody learns whether an acquire sent over it was granted. A copy of the acquire may arrive until the window ends.
	"connection given up": {30 * time.Millisecond, window + soon},
}

// Every request is delayed until its caller has given up. No orphan remains, no call takes effect twice, all answers are correct, and each lock has
// exactly one next holder.
func TestFault_RequestComesAfterItsCallersEnd(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		for how, l := range late {
			for script, round := range map[string]func(t *testing.T, l *lateness){
				"acquire":       lateAcquires,
				"release":       lateReleases,
				"pass":          latePasses,
				"inspect":       lateInspects,
				"force-release": lateForceReleases,
			} {
				t.Run(script+"/"+how, func(t *testing.T) {
					t.Parallel()
					w := newWire(t, p, l.patience, holdfast.Options{Handoff: holdfast.Handoff{For: 10 * time.Second}})
					tries := tries(p, 200, perRound)
					for range tries / perRound {
						round(t, newLateness(t, w, l.orphan))
					}
					t.Logf("%d tries", tries)
					w.gone.log(t, "orphans")
				})
			}
		}
	})
}

// lateness is one round: several locks whose requests are all delayed at the same time.
type lateness struct {
	*wire
	orphan  time.Duration
	locks   []*wire
	waiters []*holdfast.Pending // in another runtime
}

func newLateness(t *testing.T, w *wire, orphan time.Duration) *lateness {
	l := &lateness{wire: w, orphan: orphan}
	for range perRound {
		l.locks = append(l.locks, w.another(t))
	}
	return l
}

// holdUp runs `call` for each lock, and holds the requests up in the proxy. The context of a call ends after 1 to 21 ms. When all calls have
// returned, holdUp waits for up to 50 ms more, and then lets the requests through. When holdUp returns, all requests have arrived.
func (l *lateness) holdUp(t *testing.T, call func(ctx context.Context, w *wire)) {
	l.proxy.Blackhole(true)
	var callers sync.WaitGroup
	for _, w := range l.locks {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond+rand.N(20*time.Millisecond))
			defer cancel()
			call(ctx, w)
		})
	}
	callers.Wait()
	<-time.After(rand.N(50 * time.Millisecond))
	l.proxy.Blackhole(false)
	l.arrived(t)
}

// wait starts a waiter for each of the locks, in another runtime.
func (l *lateness) wait(t *testing.T) {
	for _, w := range l.locks {
		l.waiters = append(l.waiters, w.wait(t))
	}
}

// assertNext asserts that each waiter becomes the next holder of its lock, and the only one.
func (l *lateness) assertNext(t *testing.T) {
	for i, w := range l.locks {
		w.assertNext(t, l.waiters[i])
	}
}

func lateAcquires(t *testing.T, l *lateness) {
	l.holdUp(t, func(ctx context.Context, w *wire) {
		_, err := w.lock().Acquire(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
	})
	for _, w := range l.locks {
		w.assertNoOrphan(t, l.orphan)
	}
	l.wait(t)
	for i, w := range l.locks {
		w.assertTakesOver(t, l.waiters[i])
		w.assertNoOrphan(t, l.orphan) // again, because a copy of the acquire may have arrived meanwhile
	}
}

func lateReleases(t *testing.T, l *lateness) {
	leases := map[*wire]*holdfast.Lease{}
	for _, w := range l.locks {
		leases[w] = locktest.Acquire(t, w.lock())
	}
	l.wait(t)
	l.holdUp(t, func(ctx context.Context, w *wire) {
		err := leases[w].Release(ctx)
		assert.ErrorContains(t, err, "not confirmed")
		assert.NotErrorIs(t, err, holdfast.ErrNotHeld)
		assert.NotErrorIs(t, err, holdfast.ErrLeaseLost)
		assert.False(t, leases[w].Valid())
		assert.ErrorIs(t, leases[w].Err(), holdfast.ErrNotHeld)
	})
	l.assertNext(t)
}

// latePasses delays the call that passes a lock on to the next waiter, until that waiter has gone.
func latePasses(t *testing.T, l *lateness) {
	leases := map[*wire]*holdfast.Lease{}
	for _, w := range l.locks {
		leases[w] = locktest.Acquire(t, w.lock())
	}
	l.wait(t)
	l.holdUp(t, func(ctx context.Context, w *wire) {
		second := w.lock().AcquireAsync(ctx, holdfast.WithLease(time.Hour))
		err := leases[w].Release(ctx)
		assert.NotErrorIs(t, err, holdfast.ErrNotHeld)
		assert.NotErrorIs(t, err, holdfast.ErrLeaseLost)
		_, err = second.Lease()
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
	})
	l.assertNext(t)
}

func lateInspects(t *testing.T, l *lateness) {
	leases := map[*wire]*holdfast.Lease{}
	for _, w := range l.locks {
		leases[w] = locktest.Acquire(t, w.lock())
	}
	l.holdUp(t, func(ctx context.Context, w *wire) {
		_, err := w.lock().Inspect(ctx)
		assert.Error(t, err)
	})
	for _, w := range l.locks {
		w.assertHeldBy(t, leases[w])
		locktest.Release(t, leases[w])
	}
}

// lateForceReleases delays force-releases until another runtime holds the lock. They must not free the lock then.
func lateForceReleases(t *testing.T, l *lateness) {
	var mu sync.Mutex
	next := map[*wire]*holdfast.Lease{}
	leases := map[*wire]*holdfast.Lease{}
	for _, w := range l.locks {
		leases[w] = locktest.Acquire(t, w.Lock(w.other))
	}
	l.holdUp(t, func(ctx context.Context, w *wire) {
		_, err := w.lock().ForceRelease(ctx)
		assert.Error(t, err)
		assert.NoError(t, leases[w].Release(context.Background()), "the delayed force-release has not arrived yet")
		lease, err := w.Lock(w.third).TryAcquire(context.Background())
		mu.Lock()
		defer mu.Unlock()
		if assert.NoError(t, err) {
			next[w] = lease
		}
	})
	for _, w := range l.locks {
		require.Contains(t, next, w)
		w.assertHeldBy(t, next[w])
		assert.NoError(t, next[w].Release(t.Context()))
	}
}

// An acquire is delayed on a connection that the client has given up. The release that undoes this acquire reaches Redis before it. The late acquire
// then takes a lock that nobody wants. The lock is released long before its lease ends.
func TestFault_CleanUpOvertakesTheAcquire(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		var gone durations
		var mu sync.Mutex
		var runners sync.WaitGroup
		const parallel = 5
		for range parallel {
			w := newWire(t, p, 100*time.Millisecond, holdfast.Options{})
			runners.Go(func() {
				for range tries(p, 200, 2*parallel) / parallel {
					overtakeAcquire(t, w.another(t))
				}
				mu.Lock()
				defer mu.Unlock()
				gone.all = append(gone.all, w.gone.all...)
			})
		}
		runners.Wait()
		median := gone.log(t, "orphans after their clean-up")
		assert.NotEmpty(t, gone.all)
		assert.Less(t, median, window/4)
	})
}

// overtakeAcquire delays an acquire until its connection is closed, its caller has given up, and Redis has executed the release that undoes the
// acquire.
func overtakeAcquire(t *testing.T, w *wire) {
	w.arrived(t) // the link works, and nothing else is in flight
	start, delay := time.Now(), 150*time.Millisecond+rand.N(150*time.Millisecond)
	w.proxy.Delay(faultproxy.ToServer, delay)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := w.lock().Acquire(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	w.proxy.Delay(faultproxy.ToServer, 0)
	locktest.Await(t, "the late acquire", func() bool {
		return w.Exists(t) || time.Since(start) > 2*delay && !w.late()
	})
	if w.Exists(t) { // on a busy machine the acquire may not have been sent at all, and then there is no orphan
		w.assertNoOrphan(t, window+soon)
	}
	w.assertNext(t, w.wait(t))
}

// A renewal is delayed until its holder has gone and another runtime has the lock. The late renewal changes nothing.
func TestFault_RenewalComesAfterItsHoldersEnd(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		const lease = 9 * time.Second // shorter than the lease of the next holder
		var events locktest.Recorder
		w := newWire(t, p, 30*time.Millisecond, holdfast.Options{Lease: lease, RenewBatch: 1, OnEvent: events.Record})
		tries := tries(p, 200, 10)
		locks, leases := make([]*wire, tries), make([]*holdfast.Lease, tries)
		var waiters []*holdfast.Pending
		for i := range tries {
			locks[i] = w.another(t)
			leases[i] = locktest.Acquire(t, locks[i].lock())
			waiters = append(waiters, locks[i].wait(t))
		}
		w.proxy.Blackhole(true)
		locktest.Await(t, "renewals", func() bool { return len(locktest.Recorded[holdfast.RenewFailed](&events)) >= tries })
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var holders sync.WaitGroup
		for _, lease := range leases {
			holders.Go(func() { assert.ErrorContains(t, lease.Release(ended), "not confirmed") })
		}
		holders.Wait()
		w.proxy.Blackhole(false)
		w.arrived(t)
		for i, l := range locks {
			locktest.Closed(t, "the next grant", waiters[i].Done())
			assert.Greater(t, l.Redis.PTTL(t.Context(), l.Name).Val(), lease)
			l.assertNext(t, waiters[i])
		}
		t.Logf("%d tries", tries)
	})
}
