package promises_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
)

func TestPromise_TurnsAreBounded(t *testing.T) {
	t.Parallel()
	t.Run("in order", func(t *testing.T) {
		t.Parallel()
		locktest.Everywhere(t, showOrder)
	})
	t.Run("holders per turn", func(t *testing.T) {
		t.Parallel()
		locktest.Everywhere(t, showTurnLength)
	})
	t.Run("other process", func(t *testing.T) {
		t.Parallel()
		locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
			lock := p.Lock(p.Runtime(t, holdfast.Options{}))
			showTurnsEnd(t, p, func(ctx context.Context) error {
				return lock.Do(ctx, func(context.Context) error { return nil })
			})
		})
	})
	t.Run("Redisson", func(t *testing.T) {
		t.Parallel()
		locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
			lock, missed := p.Kind.Peer(locktest.NewPeer(t, p), p.Name, 1), 0
			showTurnsEnd(t, p, func(ctx context.Context) error {
				for {
					err := lockInTime(ctx, p.Kind, lock)
					if !errors.Is(err, context.DeadlineExceeded) {
						return errors.Join(err, lock.Unlock(context.Background()))
					}
					missed++
				}
			})
			assert.LessOrEqual(t, missed, locktest.Scaled(2, 10))
		})
	})
}

// lockInTime waits for a fair lock until ctx ends, and for any other lock at most 300 ms. Without this limit, a Redisson thread that misses a message
// would sleep until the lease ends. A thread misses the message if a writer releases the lock between the thread's try and its wait.
func lockInTime(ctx context.Context, kind locktest.Kind, lock redissonpeer.Lock) error {
	if kind.Queued {
		return lock.Lock(ctx, 0)
	}
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	return lock.Lock(ctx, 0)
}

// showOrder shows that waiters of all sorts in one process are served in order of arrival, even when the lock is passed on and when a
// turn ends.
func showOrder(t *testing.T, p *locktest.Place) {
	rt := p.Runtime(t, holdfast.Options{Handoff: holdfast.Handoff{Max: 7}})
	first := locktest.Acquire(t, p.Lock(rt))
	waiting := make([]*holdfast.Pending, 60)
	for i := range waiting {
		var options []holdfast.AcquireOption
		if i%5 == 3 {
			options = append(options, holdfast.WithLease(time.Minute))
		}
		waiting[i] = p.Lock(rt).AcquireAsync(t.Context(), options...)
	}
	waiting[10].Cancel()
	p.WaitForWaiting(t, rt, len(waiting)-1)
	locktest.Release(t, first)
	for i, pending := range waiting {
		lease, err := pending.Lease()
		if i == 10 {
			require.ErrorIs(t, err, context.Canceled)
			continue
		}
		require.NoError(t, err)
		require.True(t, lease.Valid())
		for _, later := range waiting[i+1:] {
			if later != waiting[10] {
				locktest.Open(t, "a later one's grant", later.Done())
			}
		}
		locktest.Release(t, lease)
	}
}

// showTurnLength counts how many holders in a row have the same grant.
func showTurnLength(t *testing.T, p *locktest.Place) {
	const most = 5
	rt := p.Runtime(t, holdfast.Options{Handoff: holdfast.Handoff{Max: most, For: 10 * time.Second}})
	locktest.Release(t, locktest.Acquire(t, p.Lock(rt))) // the first grant of a fenced lock has only one token, so it serves only one holder
	first := locktest.Acquire(t, p.Lock(rt))
	waiting := make([]*holdfast.Pending, 40)
	for i := range waiting {
		waiting[i] = p.Lock(rt).AcquireAsync(t.Context())
	}
	p.WaitForWaiting(t, rt, len(waiting))
	ids := []string{first.ID()}
	locktest.Release(t, first)
	for _, pending := range waiting {
		lease, err := pending.Lease()
		require.NoError(t, err)
		ids = append(ids, lease.ID())
		locktest.Release(t, lease)
	}
	var turns []int
	for len(ids) > 0 {
		end := slices.IndexFunc(ids, func(id string) bool { return id != ids[0] })
		if end < 0 {
			end = len(ids)
		}
		turns = append(turns, end)
		ids = ids[end:]
	}
	if p.Kind.Queued {
		assert.Len(t, turns, 1+len(waiting), "each holder has a turn of its own")
	} else {
		assert.Equal(t, []int{5, 5, 5, 5, 5, 5, 5, 5, 1}, turns, "each turn serves as many as it may")
	}
}

// showTurnsEnd lets one waiter compete with a process in which 16 goroutines take the lock again and again.
func showTurnsEnd(t *testing.T, p *locktest.Place, once func(ctx context.Context) error) {
	const crowd, rounds, section = 16, 30, 200 * time.Microsecond
	stalls := locktest.WatchStalls(t, p)
	rt := p.Runtime(t, holdfast.Options{})
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer all.Wait()
	defer stop()
	served := make([]int, crowd)
	for i := range crowd {
		all.Go(func() {
			for {
				lease, err := p.Lock(rt).Acquire(ctx)
				if err != nil {
					return
				}
				for start := time.Now(); time.Since(start) < section; {
				}
				served[i]++
				_ = lease.Release(ctx)
			}
		})
	}
	p.WaitForWaiting(t, rt, crowd/2)
	var waits []time.Duration
	for begin := time.Now(); len(waits) < rounds || time.Since(begin) < time.Second/2; {
		start := time.Now()
		require.NoError(t, once(ctx))
		waits = append(waits, time.Since(start))
	}
	stop()
	all.Wait()

	slices.Sort(waits)
	late, median, longest := stalls.Take(), waits[len(waits)/2], waits[len(waits)-1]
	t.Logf("%d waits, median %v, longest %v, stalls up to %v; the crowd was served %v", len(waits), median, longest, late, served)
	assert.Less(t, median, 10*(10*time.Millisecond+section)+late+locktest.Slack()/4, "the usual wait is a few turns")
	bound := 500 * time.Millisecond
	if p.Kind.Deaf { // a waiter of this kind polls every 128 ms or sooner, and may miss times in which the lock is free
		bound = 2 * time.Second
	}
	assert.Less(t, longest, bound+4*late+locktest.Slack(), "even the longest wait was not ended by polling")
	assert.Greater(t, slices.Min(served), slices.Max(served)/4, "the crowd itself is served evenly")
}
