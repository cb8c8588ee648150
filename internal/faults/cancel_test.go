package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// An acquire is cancelled at a random instant around its grant. The test does this for each way in which a lock can be granted. Afterwards, either
// the caller holds the lock, or the lock is soon free.
func TestFault_CancelMeetsTheGrant(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{Handoff: holdfast.Handoff{For: 10 * time.Second}})
		w := wire{Place: p, rt: rt, other: p.Runtime(t, holdfast.Options{}), stalls: locktest.WatchStalls(t, p)}
		for grant, try := range grants {
			t.Run(grant, func(t *testing.T) {
				t.Parallel()
				r := &race{wire: w, try: try}
				r.left.Store(int64(tries(p, 10_000/len(grants), 100)))
				var runners sync.WaitGroup
				for range 3 {
					runners.Go(func() { r.run(t) })
				}
				runners.Wait()
				t.Logf("the cancel was first %d times, the grant %d times", r.cancelled.Load(), r.granted.Load())
				r.free.log(t, "free after a cancel")
				if locktest.Slack() == 0 { // on a busy machine all cancels of a short run may be too late, or all too early
					assert.Greater(t, r.cancelled.Load(), r.granted.Load()/20, "nearly all cancels were too late")
					assert.Greater(t, r.granted.Load(), r.cancelled.Load()/20, "nearly all cancels were too early")
				}
			})
		}
	})
}

// toGrant is one way in which an acquire is granted. The function acquires a lock with ctx. Shortly before the grant, it calls the function `begin`,
// which cancels ctx after a random delay.
type toGrant func(ctx context.Context, t *testing.T, w *wire, begin func()) (*holdfast.Lease, error)

var grants = map[string]toGrant{
	"free lock": func(ctx context.Context, _ *testing.T, w *wire, begin func()) (*holdfast.Lease, error) {
		begin()
		return w.lock().Acquire(ctx)
	},
	"release elsewhere": func(ctx context.Context, t *testing.T, w *wire, begin func()) (*holdfast.Lease, error) {
		holder := locktest.Acquire(t, w.Lock(w.other))
		return releaseTo(w.lock().AcquireAsync(ctx), t, holder, begin)
	},
	"hand-off": func(ctx context.Context, t *testing.T, w *wire, begin func()) (*holdfast.Lease, error) {
		holder := locktest.Acquire(t, w.lock())
		return releaseTo(w.lock().AcquireAsync(ctx), t, holder, begin)
	},
	"pass to a fixed lease": func(ctx context.Context, t *testing.T, w *wire, begin func()) (*holdfast.Lease, error) {
		holder := locktest.Acquire(t, w.lock())
		return releaseTo(w.lock().AcquireAsync(ctx, holdfast.WithLease(time.Hour)), t, holder, begin)
	},
}

// releaseTo releases the holder's lease. That grants the lock to waiter, unless the acquire of waiter is cancelled first. The release begins 300 µs
// after the call of `begin`. Without this delay, a hand-off would be faster than even the earliest cancel.
func releaseTo(waiter *holdfast.Pending, t *testing.T, holder *holdfast.Lease, begin func()) (*holdfast.Lease, error) {
	begin()
	released := make(chan error)
	time.AfterFunc(300*time.Microsecond, func() { released <- holder.Release(context.Background()) })
	lease, err := waiter.Lease()
	assert.NoError(t, <-released)
	return lease, err
}

// race calls the function `try` again and again, and cancels each acquire at about the time of its grant.
type race struct {
	wire
	try                toGrant
	left               atomic.Int64
	cancelled, granted atomic.Int64

	mu   sync.Mutex
	free durations
}

// run repeats the race. Each call of run uses a separate lock. All calls together make as many repetitions as `left` says.
func (r *race) run(t *testing.T) {
	w := r.another(t)
	w.gone = &durations{}
	about := time.Millisecond // mean delay of a cancel: reduced when the grant came first, increased when the cancel came first
	for r.left.Add(-1) >= 0 && !t.Failed() {
		ctx, cancel := context.WithCancel(t.Context())
		lease, err := r.try(ctx, t, w, func() { time.AfterFunc(rand.N(2*about), cancel) })
		if err == nil {
			about = max(about*9/10, time.Microsecond)
			r.granted.Add(1)
			w.assertHeldBy(t, lease)
			assert.NoError(t, lease.Release(t.Context()))
			assert.False(t, w.Exists(t))
		} else {
			about = min(about*10/9, 100*time.Millisecond)
			r.cancelled.Add(1)
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
			w.assertFree(t)
		}
		cancel()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free.all = append(r.free.all, w.gone.all...)
}

// assertFree asserts that a lock is soon free after its acquire was cancelled. The acquire may still be in flight. So assertFree first calls Inspect
// and waits for the answer: Redis answers the runtime's calls in order.
func (w *wire) assertFree(t *testing.T) {
	start := time.Now()
	_, err := w.lock().Inspect(t.Context())
	assert.NoError(t, err)
	locktest.Await(t, "the lock to be free", func() bool { return !w.Exists(t) })
	took := time.Since(start)
	w.gone.add(took)
	assert.LessOrEqual(t, took, soon+5*w.stalls.Worst())
}
