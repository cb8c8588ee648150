package faults_test

import (
	"context"
	"flag"
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

var waitsCount = flag.Int("waits.count", 0, "how many waits each goroutine of TestFault_WaitsEnd begins; with 0, the number depends on the kind of run")

// In TestFault_WaitsEnd, eight goroutines wait for a lock again and again, so briefly that many waits end at about the instant at which they begin.
// Every wait ends, even while another runtime holds the lock. A wait that has ended is granted nothing. "make waits" runs the test at length.
func TestFault_WaitsEnd(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		for _, wait := range []time.Duration{1, 20 * time.Microsecond, time.Millisecond, 2 * time.Millisecond} {
			t.Run(wait.String(), func(t *testing.T) {
				w := newWaits(t, p, rt, 1)
				w.run(t, func() (*holdfast.Lease, error) {
					return w.locks[0].Acquire(context.Background(), holdfast.WithWait(wait))
				})
			})
		}
		t.Run("AcquireAsync", func(t *testing.T) {
			w := newWaits(t, p, rt, 1)
			w.run(t, func() (*holdfast.Lease, error) { return cancelledAsync(w.locks[0]) })
		})
		t.Run("multi lock", func(t *testing.T) {
			w := newWaits(t, p, rt, 2)
			w.run(t, func() (*holdfast.Lease, error) {
				return holdfast.Multi(w.locks...).Acquire(context.Background(), holdfast.WithWait(time.Millisecond))
			})
		})
	})
}

// cancelledAsync calls AcquireAsync, and cancels it at about the same time.
func cancelledAsync(lock *holdfast.Lock) (*holdfast.Lease, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begun := make(chan struct{})
	go func() {
		<-begun
		cancel()
	}()
	close(begun)
	pending := lock.AcquireAsync(ctx)
	if rand.N(2) == 0 {
		go pending.Cancel()
	}
	return pending.Lease()
}

// waits has the locks that eight goroutines wait for, and counts how their waits ended.
type waits struct {
	rt             *holdfast.Runtime
	places         []*locktest.Place // what the goroutines wait for
	locks          []*holdfast.Lock
	granted, ended [8]atomic.Int64 // by goroutine
	longest        locktest.Most
}

func newWaits(t *testing.T, p *locktest.Place, rt *holdfast.Runtime, locks int) *waits {
	w := &waits{rt: rt}
	for range locks {
		place := p.Another(t)
		w.places, w.locks = append(w.places, place), append(w.locks, place.Lock(rt))
	}
	return w
}

func (w *waits) run(t *testing.T, acquire func() (*holdfast.Lease, error)) {
	n := *waitsCount
	switch {
	case n > 0:
	case w.places[0].Kind.Queued: // a waiter that gives up must leave the queue in Redis, which is slower in a longer queue
		n = 40
	default:
		n = tries(w.places[0], 3_000, 200)
	}
	began := time.Now()
	holder := locktest.Acquire(t, w.places[0].Lock(w.places[0].Runtime(t, holdfast.Options{})))
	w.repeat(t, n/2, acquire)
	assert.Zero(t, sum(&w.granted), "granted while somebody else held the lock")
	locktest.Release(t, holder)
	w.repeat(t, n-n/2, acquire)
	t.Logf("%d granted, %d ended, the longest took %v, all %v", sum(&w.granted), sum(&w.ended), time.Duration(w.longest.Load()), time.Since(began))
	w.assertNothingIsLeft(t)
}

// repeat has every goroutine wait n times.
func (w *waits) repeat(t *testing.T, n int, acquire func() (*holdfast.Lease, error)) {
	t.Helper()
	var group sync.WaitGroup
	for i := range w.granted {
		group.Go(func() {
			for range n {
				if !w.wait(t, i, acquire) {
					return
				}
			}
		})
	}
	all := make(chan struct{})
	go func() { group.Wait(); close(all) }()
	w.awaitEnd(t, all)
}

// wait waits once. Sometimes it keeps the lock for a moment, so that others wait in vain.
func (w *waits) wait(t *testing.T, i int, acquire func() (*holdfast.Lease, error)) (ok bool) {
	began := time.Now()
	lease, err := acquire()
	w.longest.Note(int64(time.Since(began)))
	if err != nil {
		w.ended[i].Add(1)
		return assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
	}
	if w.granted[i].Add(1)%50 == 0 {
		stayFor(rand.N(4 * time.Millisecond))
	}
	return assert.NoError(t, lease.Release(context.Background()))
}

// awaitEnd waits for all goroutines, and fails the test when none makes progress.
func (w *waits) awaitEnd(t *testing.T, all chan struct{}) {
	t.Helper()
	seen, since := w.done(), time.Now()
	for {
		select {
		case <-all:
			return
		case <-time.After(locktest.Patience / 20):
		}
		for i, count := range w.done() {
			if count != seen[i] {
				seen, since = w.done(), time.Now()
			}
		}
		if time.Since(since) > locktest.Patience {
			require.Fail(t, "a wait does not end", "after %v waits of the goroutines", seen)
		}
	}
}

// assertNothingIsLeft asserts that the locks soon have no holder and no waiter, neither in this process nor in Redis. It allows some time, because
// calls that were given up may still be in flight.
func (w *waits) assertNothingIsLeft(t *testing.T) {
	t.Helper()
	for _, lock := range w.locks {
		locktest.Await(t, "nothing to be left", func() bool {
			state, err := lock.Inspect(context.Background())
			return err == nil && !state.Held && state.Waiting == 0 && len(state.Local) == 0 && len(state.Queue) == 0
		})
	}
	locktest.Await(t, "no key to be left", func() bool { return len(w.places[0].Keys(t)) == 0 })
}

// done returns how many waits of each goroutine have ended.
func (w *waits) done() (n [8]int64) {
	for i := range n {
		n[i] = w.granted[i].Load() + w.ended[i].Load()
	}
	return n
}

func sum(all *[8]atomic.Int64) (n int64) {
	for i := range all {
		n += all[i].Load()
	}
	return n
}
