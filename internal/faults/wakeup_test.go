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
)

// fallback is the longest time for which a lock may stay free when its waiter has missed the message. The waiter polls after a second at the latest
// (PollCap of actors/wait/policy.go). Jitter adds at most a quarter of a second. A millisecond is added for the call.
const fallback = time.Second + time.Second/4 + time.Millisecond

// passed acquires a lock, or a permit, that is passed from one holder to the next. The returned function `give` releases it.
type passed func(ctx context.Context) (give func(context.Context) error, err error)

func passedLock(lock *holdfast.Lock) passed {
	return func(ctx context.Context) (func(context.Context) error, error) {
		lease, err := lock.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}
}

func passedPermit(s *holdfast.PermitSemaphore) passed {
	return func(ctx context.Context) (func(context.Context) error, error) {
		lease, err := s.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}
}

func passedCount(s *holdfast.Semaphore) passed {
	return func(ctx context.Context) (func(context.Context) error, error) {
		return func(ctx context.Context) error { return s.Release(ctx, 1) }, s.Acquire(ctx, 1)
	}
}

// TestFault_WakeUpsAreLost has 32 runtimes pass around a lock, or the only permit of a semaphore, while their connections for messages are killed
// again and again. While runtimes wait, the lock never stays free for longer than the fallback.
func TestFault_WakeUpsAreLost(t *testing.T) {
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		showRelay(t, p, func(rt *holdfast.Runtime) passed { return passedLock(p.Lock(rt)) })
	})
	t.Run("permits", func(t *testing.T) {
		t.Parallel()
		p := locktest.OnServerOfItsOwn(t)
		showRelay(t, p, func(rt *holdfast.Runtime) passed {
			s := rt.PermitSemaphore(p.Name)
			_, err := s.TrySetPermits(t.Context(), 1)
			require.NoError(t, err)
			return passedPermit(s)
		})
	})
	t.Run("semaphore", func(t *testing.T) {
		t.Parallel()
		p := locktest.OnServerOfItsOwn(t)
		showRelay(t, p, func(rt *holdfast.Runtime) passed {
			s := rt.Semaphore(p.Name)
			_, err := s.TrySetPermits(t.Context(), 1)
			require.NoError(t, err)
			return passedCount(s)
		})
	})
}

func showRelay(t *testing.T, p *locktest.Place, join func(rt *holdfast.Runtime) passed) {
	runtimes, rounds := locktest.Scaled(32, 8), locktest.Scaled(10_000, 100)
	stalls := locktest.WatchStalls(t, p)
	stop := killSubscribers(t, p, 20*time.Millisecond)
	r := &relay{left: rounds}
	var group sync.WaitGroup
	for range runtimes {
		take := join(p.Runtime(t, holdfast.Options{}))
		group.Go(func() { r.run(t, take) })
	}
	group.Wait()
	killed := stop()
	late := stalls.Take()

	require.Len(t, r.free, rounds)
	slices.Sort(r.free)
	slices.Sort(r.waits)
	t.Logf("free for %v (median), %v at the 99th percentile, %v at most; longest wait %v; %d connections killed; stalls up to %v",
		r.free[rounds/2], r.free[rounds*99/100], r.free[rounds-1], r.waits[rounds-1], killed, late)
	assert.LessOrEqual(t, r.free[rounds-1], fallback+5*late+locktest.Slack(), "the lock stays free for no longer")
	assert.Less(t, r.free[rounds/2], 100*time.Millisecond+late+locktest.Slack()/4, "usually a message or a new subscription wakes the waiter")
	if !p.Kind.Deaf { // a waiter that listens to nothing polls
		assert.Less(t, p.Server.CommandStats(t, "evalsha")["evalsha"], int64(rounds*(2*runtimes+2)), "waiters do not try all the time")
	}
}

// TestFault_ReleaseBetweenSubscriptions makes the only waiter lose its connection right before the release. The new subscription makes the waiter
// try, long before it would poll.
func TestFault_ReleaseBetweenSubscriptions(t *testing.T) {
	rounds := locktest.Scaled(100, 10)
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		if p.Kind.Deaf { // the spin lock, see TestSpinLock_ListensToNothingAndTellsAll
			t.Skip("its waiters listen to nothing")
		}
		holder, waiter := p.Lock(p.Runtime(t, holdfast.Options{})), p.Lock(p.Runtime(t, holdfast.Options{}))
		var waits []time.Duration
		for range rounds {
			lease := locktest.Acquire(t, holder)
			pending := waiter.AcquireAsync(t.Context())
			locktest.Await(t, "a subscription", func() bool {
				return p.Redis.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Val() > 0
			})
			start := time.Now()
			locktest.Release(t, lease)
			next, err := pending.Lease()
			require.NoError(t, err)
			waits = append(waits, time.Since(start))
			locktest.Release(t, next)
		}
		slices.Sort(waits)
		t.Logf("waited %v (median), %v at most", waits[rounds/2], waits[rounds-1])
		assert.Less(t, waits[rounds/2], fallback/4, "woken by the new subscription, not by polling")
		assert.Less(t, waits[rounds-1], 2*fallback)
	})
}

// relay lets runtimes pass a lock or a permit around for a number of rounds, while some runtime always waits for it. Before each grant, relay records
// for how long the lock or permit was free.
type relay struct {
	mu    sync.Mutex
	left  int
	freed time.Time
	free  []time.Duration
	waits []time.Duration
}

func (r *relay) run(t *testing.T, take passed) {
	for {
		start := time.Now()
		give, err := take(t.Context())
		if !assert.NoError(t, err) {
			return
		}
		more := r.note(start)
		r.mu.Lock()
		r.freed = time.Now()
		r.mu.Unlock()
		if !assert.NoError(t, give(t.Context())) || !more {
			return
		}
	}
}

// note records a grant, and reports whether its holder should take part in another round.
func (r *relay) note(start time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		return false
	}
	r.left--
	from := r.freed
	if from.Before(start) {
		from = start // before that, perhaps nobody was waiting
	}
	r.free = append(r.free, time.Since(from))
	r.waits = append(r.waits, time.Since(start))
	return r.left > 0
}

// killSubscribers breaks all connections for messages, again and again. The function `stop` ends that, and returns the number of broken connections.
func killSubscribers(t *testing.T, p *locktest.Place, every time.Duration) (stop func() int64) {
	client, ended, killed := locktest.NewClient(t, p.Addr), make(chan struct{}), int64(0)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for ; ctx.Err() == nil; <-ticks.C {
			killed += client.ClientKillByFilter(ctx, "TYPE", "pubsub").Val()
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return func() int64 { cancel(); <-ended; return killed }
}
