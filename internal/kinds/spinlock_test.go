package kinds_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A waiter for a spin lock subscribes to nothing. The release of a spin lock still wakes waiters for other kinds of lock with the same name.
func TestSpinLock_ListensToNothingAndTellsAll(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "spin lock")
	first, second := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
	held := locktest.Acquire(t, p.Lock(first))
	spinning := p.Lock(second).AcquireAsync(t.Context())
	p.WaitForWaiting(t, second, 1)
	locktest.Stays(t, "no channel", 50*time.Millisecond, func() bool {
		return len(p.Redis.PubSubChannels(t.Context(), "*{"+p.Name+"}*").Val()) == 0
	})
	locktest.Release(t, held)
	lease, err := spinning.Lease()
	require.NoError(t, err)

	listening := first.Lock(p.Name).AcquireAsync(t.Context())
	locktest.Await(t, "a subscription", func() bool {
		return len(p.Redis.PubSubChannels(t.Context(), "*{"+p.Name+"}*").Val()) == 1
	})
	stalls := locktest.WatchStalls(t, p)
	start := time.Now()
	locktest.Release(t, lease)
	lease, err = listening.Lease()
	require.NoError(t, err)
	assert.Less(t, time.Since(start), 500*time.Millisecond+stalls.Slack(), "woken by the spin lock's release")
	locktest.Release(t, lease)
}

// WithBackoff sets the pauses between attempts.
func TestSpinLock_Backoff(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "spin lock")
	holder, rt := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
	lease := locktest.Acquire(t, p.Lock(holder))
	patient := p.Lock(rt).AcquireAsync(t.Context(), holdfast.WithBackoff(holdfast.Backoff{Initial: time.Hour, Max: time.Hour}))
	p.WaitForWaiting(t, rt, 1)
	locktest.Release(t, lease)
	locktest.Stays(t, "it pauses", 200*time.Millisecond, func() bool {
		select {
		case <-patient.Done():
			return false
		default:
			return true
		}
	})
	patient.Cancel()

	for _, bad := range []holdfast.Backoff{
		{Initial: -1}, {Initial: time.Second, Max: time.Millisecond}, {Multiplier: 0.5}, {Multiplier: -1},
	} {
		_, err := p.Lock(rt).TryAcquire(t.Context(), holdfast.WithBackoff(bad))
		assert.ErrorIs(t, err, holdfast.ErrInvalid, "%+v", bad)
	}
	_, err := p.Lock(rt).TryAcquire(t.Context(), holdfast.WithBackoff(holdfast.Backoff{}))
	assert.NoError(t, err, "the defaults")
}

func TestSpinLock_NothingElseHasABackoff(t *testing.T) {
	t.Parallel()
	rt := locktest.NewRuntime(t, redistest.Start(t).Client(t), holdfast.Options{})
	book := rt.RWLock("book")
	locks := []*holdfast.Lock{rt.Lock("a"), rt.FairLock("b"), rt.FencedLock("c"), book.Read(), book.Write()}
	for _, backoff := range []holdfast.Backoff{{}, {Initial: time.Second, Max: time.Second}} {
		option := holdfast.WithBackoff(backoff)
		for _, lock := range locks {
			_, err := lock.TryAcquire(t.Context(), option)
			require.ErrorIs(t, err, holdfast.ErrInvalid, "%q %+v", lock.Name(), backoff)
			_, err = lock.AcquireAsync(t.Context(), option).Lease()
			assert.ErrorIs(t, err, holdfast.ErrInvalid, "%q %+v", lock.Name(), backoff)
			_, err = holdfast.Multi(rt.SpinLock("s"), lock).TryAcquire(t.Context(), option)
			assert.ErrorIs(t, err, holdfast.ErrInvalid, "%q %+v", lock.Name(), backoff)
		}
		_, err := rt.PermitSemaphore("p").TryAcquire(t.Context(), option)
		assert.ErrorIs(t, err, holdfast.ErrInvalid, "%+v", backoff)
		assert.ErrorContains(t, err, "a permit semaphore does not spin")
	}
}
