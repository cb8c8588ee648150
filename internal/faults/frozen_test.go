package faults_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const frozenLease = 2 * time.Second

// freezes are ways to keep a server from answering for the length of two leases.
var freezes = map[string]func(t *testing.T, p *locktest.Place) (thaw func()){
	"stopped": stopped,
	"busy":    busy,
	"all clients paused": func(t *testing.T, p *locktest.Place) func() {
		require.NoError(t, p.Redis.Do(t.Context(), "client", "pause", (2*frozenLease).Milliseconds(), "all").Err())
		return func() { assert.NoError(t, p.Redis.Ping(context.Background()).Err()) } // answered when the pause is over
	},
}

// A server answers no calls for the length of two leases. When a lease ends by its holder's own clock, the holder learns that the lock is
// lost. Calls end in time, no matter how many there are. When the server answers again, the locks can be acquired at once.
func TestFault_FrozenServer(t *testing.T) {
	t.Parallel()
	for how, freeze := range freezes {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			showFrozenServer(t, freeze)
		})
	}
}

func showFrozenServer(t *testing.T, freeze func(*testing.T, *locktest.Place) func()) {
	places := locktest.OnOneServer(t)
	p := places[0]
	rt, other := p.Runtime(t, holdfast.Options{Lease: frozenLease}), p.Runtime(t, holdfast.Options{Lease: frozenLease})
	var held []*holdfast.Lease
	var waiting []*holdfast.Pending
	for _, p := range places {
		held = append(held, locktest.Acquire(t, p.Lock(rt)), locktest.Acquire(t, p.Another(t).Lock(rt), holdfast.WithLease(frozenLease)))
		waiting = append(waiting, p.Lock(other).AcquireAsync(t.Context()))
		p.WaitForWaiting(t, other, 1)
	}
	stalls := locktest.WatchStalls(t, &locktest.Place{Addr: redistest.Shared(t).Addr()})
	thaw := freeze(t, p)
	frozen := time.Now()

	late := make([]time.Duration, len(held))
	var calls sync.WaitGroup
	for i, lease := range held {
		calls.Go(func() { late[i] = lostLate(t, lease) })
	}
	calls.Go(func() { callMany(t, places, rt) })
	calls.Wait()
	worst := slices.Max(late)
	assert.LessOrEqual(t, worst, 20*time.Millisecond+stalls.Slack(), "after the deadline")
	<-time.After(time.Until(frozen.Add(2 * frozenLease)))
	thaw()

	start := time.Now()
	for i, p := range places {
		calls.Go(func() { holdAfterThaw(t, p, other, waiting[i]) })
	}
	calls.Wait()
	took := time.Since(start)
	t.Logf("losses were reported at most %v after the deadline; %v from the thaw to the last of the next holders", worst.Round(time.Millisecond), took.Round(time.Millisecond))
	assert.Less(t, took, 5*time.Second)
	for _, lost := range held {
		assert.ErrorIs(t, lost.Release(t.Context()), holdfast.ErrLeaseLost)
	}
}

// holdAfterThaw waits for the waiter, or acquires again if the waiter has given up, and releases the lock.
func holdAfterThaw(t *testing.T, p *locktest.Place, rt *holdfast.Runtime, waiting *holdfast.Pending) {
	next, err := waiting.Lease()
	if err != nil {
		assert.ErrorContains(t, err, p.Name)
		next, err = p.Lock(rt).Acquire(t.Context())
	}
	if !assert.NoError(t, err) {
		return
	}
	if fields := p.Fields(t); next.Valid() {
		assert.Contains(t, fields, next.ID())
	}
	if err := next.Release(t.Context()); err != nil {
		assert.True(t, isTimeout(err) || !next.Valid(), "%v", err)
	}
}

// lostLate waits for the end of a lease that cannot be renewed. It returns the time from the lease's deadline, by the holder's clock, to the end.
func lostLate(t *testing.T, lease *holdfast.Lease) time.Duration {
	deadline := lease.ExpiresAt()
	told := locktest.Closed(t, "the loss", lease.Done())
	assert.False(t, lease.Valid())
	assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
	return told.Sub(deadline)
}

// callMany makes so many calls at once that some of them can neither have a connection nor wait for one. Still, every call ends in time.
func callMany(t *testing.T, places []*locktest.Place, rt *holdfast.Runtime) {
	var calls sync.WaitGroup
	for i := range 200 {
		p := places[i%len(places)].Another(t)
		calls.Go(func() {
			start := time.Now()
			_, err := p.Lock(rt).TryAcquire(context.Background())
			assert.ErrorContains(t, err, p.Name)
			assert.Less(t, time.Since(start), sickWait)
		})
	}
	calls.Wait()
}
