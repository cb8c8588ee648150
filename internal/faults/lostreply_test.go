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
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// soon is how long an orphan may exist: the release that follows a lost grant needs a new connection and some processor time.
const soon = 100 * time.Millisecond

// The first reply to each script is lost. Even so, the runtime's results are correct, no acquire or release takes effect twice, no orphan remains,
// and exactly one waiter acquires the lock next. The client is set to retry commands, but the runtime forbids that.
func TestFault_FirstReplyLost(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		for script, try := range map[string]func(t *testing.T, w *wire){
			"acquire":           loseAcquire,
			"acquire, given up": loseGivenUp,
			"release":           loseRelease,
			"pass":              losePass,
			"extend":            loseExtend,
			"inspect":           loseInspect,
			"force-release":     loseForceRelease,
		} {
			t.Run(script, func(t *testing.T) {
				t.Parallel()
				w := newWire(t, p, 0, holdfast.Options{Handoff: holdfast.Handoff{For: 10 * time.Second}})
				tries := tries(p, 200, 5)
				for range tries {
					try(t, w.another(t))
				}
				t.Logf("%d tries, %d replies lost", tries, w.proxy.Dropped())
				w.gone.log(t, "orphans")
				if script != "acquire, given up" { // an acquire that was given up before it was sent has no reply
					assert.Equal(t, tries, w.proxy.Dropped())
				}
				assert.Positive(t, w.proxy.Dropped())
			})
		}
	})
}

func loseAcquire(t *testing.T, w *wire) {
	w.proxy.DropReplies(1, w.mine())
	lease := locktest.Acquire(t, w.lock())
	w.assertHeldBy(t, lease)
	waiter := w.wait(t)
	locktest.Release(t, lease)
	w.assertNext(t, waiter)
}

// loseGivenUp has a caller that gives up at a random instant. If the error says that the caller does not hold the lock, nobody holds it.
func loseGivenUp(t *testing.T, w *wire) {
	w.proxy.DropReplies(1, w.mine())
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(rand.N(2*time.Millisecond), cancel)
	lease, err := w.lock().Acquire(ctx, holdfast.WithLease(time.Hour))
	if err == nil {
		w.assertHeldBy(t, lease)
		locktest.Release(t, lease)
	} else {
		require.ErrorIs(t, err, context.Canceled)
		w.arrived(t)
		w.assertNoOrphan(t, soon)
	}
	w.assertNext(t, w.wait(t))
}

func loseRelease(t *testing.T, w *wire) {
	lease := locktest.Acquire(t, w.lock())
	waiter := w.wait(t)
	w.proxy.DropReplies(1, w.mine())
	assert.NoError(t, lease.Release(t.Context()), "no false loss")
	assert.ErrorIs(t, lease.Err(), holdfast.ErrNotHeld)
	w.assertNext(t, waiter)
}

func losePass(t *testing.T, w *wire) {
	locktest.Release(t, locktest.Acquire(t, w.lock())) // ends the first turn, in which a fenced lock has only one token and is not passed
	first := locktest.Acquire(t, w.lock())
	second := w.lock().AcquireAsync(t.Context(), holdfast.WithLease(time.Minute))
	w.WaitForWaiting(t, w.rt, 1)
	waiter := w.wait(t)
	w.proxy.DropReplies(1, w.mine())
	assert.NoError(t, first.Release(t.Context()))
	lease, err := second.Lease()
	require.NoError(t, err)
	assert.NotEqual(t, first.ID(), lease.ID())
	w.assertHeldBy(t, lease)
	locktest.Release(t, lease)
	w.assertNext(t, waiter)
}

func loseExtend(t *testing.T, w *wire) {
	lease := locktest.Acquire(t, w.lock(), holdfast.WithLease(time.Minute))
	w.proxy.DropReplies(1, w.mine())
	assert.NoError(t, lease.Extend(t.Context(), time.Hour))
	assert.Greater(t, w.Redis.PTTL(t.Context(), w.Name).Val(), time.Hour-locktest.Patience)
	w.assertHeldBy(t, lease)
	locktest.Release(t, lease)
	w.assertNext(t, w.wait(t))
}

// loseInspect loses the reply to an Inspect. The Inspect is not repeated. It returns an error, and changes nothing.
func loseInspect(t *testing.T, w *wire) {
	lease := locktest.Acquire(t, w.lock())
	w.proxy.DropReplies(1, w.mine())
	_, err := w.lock().Inspect(t.Context())
	assert.Error(t, err)
	assert.NotErrorIs(t, err, holdfast.ErrNotHeld)
	state, err := w.lock().Inspect(t.Context())
	assert.NoError(t, err)
	assert.Equal(t, []holdfast.Holder{{ID: lease.ID(), Holds: 1}}, state.Holders)
	w.assertHeldBy(t, lease)
	locktest.Release(t, lease)
}

// loseForceRelease loses the reply to a ForceRelease. The call is not repeated, because a repeat could hit the next holder.
func loseForceRelease(t *testing.T, w *wire) {
	lease := locktest.Acquire(t, w.Lock(w.other))
	waiter := w.wait(t)
	w.proxy.DropReplies(1, w.mine())
	_, err := w.lock().ForceRelease(t.Context())
	assert.ErrorContains(t, err, "unknown")
	assert.NotContains(t, w.Fields(t), lease.ID())
	assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
	w.assertNext(t, waiter)
}

// The first reply to each renewal is lost. The lease is renewed all the same, and still counts as one hold of the lock.
func TestFault_FirstReplyOfARenewalLost(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		const lease = 6 * time.Second
		w := newWire(t, p, 0, holdfast.Options{Lease: lease, RenewBatch: 1})
		tries := tries(p, 200, 5)
		var group sync.WaitGroup
		for range tries {
			v := w.another(t)
			held := locktest.Acquire(t, v.lock())
			w.proxy.DropReplies(1, v.mine())
			group.Go(func() {
				awaitRenewal(t, held)
				v.assertHeldBy(t, held)
				assert.NoError(t, held.Release(t.Context()))
				v.assertNext(t, v.wait(t))
			})
		}
		group.Wait()
		t.Logf("%d tries, %d replies lost", tries, w.proxy.Dropped())
		assert.GreaterOrEqual(t, w.proxy.Dropped(), tries)
	})
}

// awaitRenewal returns when the runtime has renewed the lease.
func awaitRenewal(t *testing.T, lease *holdfast.Lease) {
	first := lease.ExpiresAt().Add(50 * time.Millisecond) // even without a renewal, results of ExpiresAt differ slightly: see Engine.Time
	locktest.Await(t, "a renewal", func() bool { return assert.True(t, lease.Valid()) && lease.ExpiresAt().After(first) })
}
