package holdfast_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// doc/promises.md names the tests of each promise. Two of these tests are in this file. Most others are in internal/promises and internal/faults.

func TestPromise_OneHolderAtATime(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		c := newContest(t, p, 3)
		for range 3 {
			c.enter(t, p.Runtime(t, holdfast.Options{}), 4, time.Minute)
		}
		c.run(t, time.Second, 50)

		c.assertNeverTwoValid(t)
		for _, prize := range c.prizes {
			assert.Equal(t, prize.wins.Load(), prize.counter.Load(), "two holders at the same time changed the counter")
		}
	})
	t.Run("faults", func(t *testing.T) {
		t.Parallel()
		locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
			const lease = 300 * time.Millisecond
			c := newContest(t, p, 2)
			var proxies []*faultproxy.Proxy
			for range 3 {
				rt, proxy := p.Proxied(t, holdfast.Options{Lease: lease})
				c.enter(t, rt, 3, lease)
				proxies = append(proxies, proxy)
			}
			c.helpers.Go(func() { disturb(t, c.ended, proxies, lease) })
			c.run(t, 4*time.Second, 50)

			c.assertNeverTwoValid(t)
		})
	})
}

// contest is a competition: many goroutines of several runtimes want the same few locks, the prizes.
type contest struct {
	place   *locktest.Place
	prizes  []*prize
	ended   chan struct{}
	helpers sync.WaitGroup
}

// prize is one lock of a contest, and what happened under it.
type prize struct {
	place   *locktest.Place
	wins    atomic.Int64
	counter atomic.Int64 // a holder reads it, and later stores the number plus one: two holders at a time would lose an addition
	spans   locktest.Spans
}

func newContest(t *testing.T, p *locktest.Place, prizes int) *contest {
	c := &contest{place: p, prizes: make([]*prize, prizes), ended: make(chan struct{})}
	for i := range c.prizes {
		c.prizes[i] = &prize{place: p.Another(t)}
	}
	return c
}

// enter lets goroutines of a runtime take part in the contest. Some of their acquires ask for a fixed lease.
func (c *contest) enter(t *testing.T, rt *holdfast.Runtime, goroutines int, lease time.Duration) {
	for range goroutines {
		c.helpers.Go(func() {
			for {
				select {
				case <-c.ended:
					return
				default:
					c.prizes[rand.IntN(len(c.prizes))].tryToWin(t, rt, lease)
				}
			}
		})
	}
}

// run ends the contest when it has lasted for at least d and each prize has been won at least `wins` times.
func (c *contest) run(t *testing.T, d time.Duration, wins int64) {
	start := time.Now()
	locktest.Await(t, "the contest", func() bool {
		return time.Since(start) > d && !slices.ContainsFunc(c.prizes, func(p *prize) bool { return p.wins.Load() < wins })
	})
	close(c.ended)
	c.helpers.Wait()
}

// tryToWin acquires the lock in one of several ways, holds it for a moment, and releases it. Each step may fail.
func (p *prize) tryToWin(t *testing.T, rt *holdfast.Runtime, fixed time.Duration) {
	var lease *holdfast.Lease
	var err error
	ctx := context.Background()
	lock := p.place.Lock(rt)
	switch rand.IntN(8) {
	case 0:
		lease, err = lock.TryAcquire(ctx)
	case 1:
		lease, err = lock.Acquire(ctx, holdfast.WithLease(fixed), holdfast.WithWait(time.Second))
	case 2:
		pending := lock.AcquireAsync(ctx, holdfast.WithWait(20*time.Millisecond))
		lease, err = pending.Lease()
	default:
		lease, err = lock.Acquire(ctx, holdfast.WithWait(time.Second))
	}
	if err != nil {
		return
	}
	p.hold(lease, time.Duration(rand.IntN(3))*time.Millisecond)
	if rand.IntN(4) == 0 {
		go func() { _ = lease.Release(ctx) }() // a second Release has no effect
	}
	_ = lease.Release(ctx)
}

// hold holds the lock for d. It adds one to the counter, and records for how long the lease reported that it was valid.
func (p *prize) hold(lease *holdfast.Lease, d time.Duration) {
	p.wins.Add(1)
	seen := p.counter.Load()
	p.spans.Hold(lease, d)
	p.counter.Store(seen + 1)
}

func (c *contest) assertNeverTwoValid(t *testing.T) {
	for _, prize := range c.prizes {
		assert.Empty(t, prize.spans.Overlaps())
	}
}

// disturb injects network faults into the links of runtimes, until ended is closed.
func disturb(t *testing.T, ended chan struct{}, proxies []*faultproxy.Proxy, lease time.Duration) {
	seed := rand.Uint64()
	t.Logf("seed of the faults: %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	upTo := func(d time.Duration) <-chan time.Time { return time.After(time.Duration(random.Int64N(int64(d)))) }
	for {
		proxy := proxies[random.IntN(len(proxies))]
		proxy.Disturb(random, lease/4)
		for _, wait := range []<-chan time.Time{upTo(lease * 3 / 2), upTo(lease / 4)} {
			select {
			case <-wait:
			case <-ended:
				proxy.Heal()
				return
			}
			proxy.Heal()
		}
	}
}

func TestPromise_ReleaseWithEndedContext(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		stalls := locktest.WatchStalls(t, p)
		rt := p.Runtime(t, holdfast.Options{})
		err := errors.New("never released")
		for try := 0; err != nil && try < 5; try++ {
			lease := locktest.Acquire(t, p.Lock(rt))
			stalls.Take()
			err = lease.Release(ended)
			assert.ErrorIs(t, lease.Err(), holdfast.ErrNotHeld)
			if stalls.Take() < 100*time.Millisecond { // after a longer stall, Release may have given up before Redis answered
				require.NoError(t, err)
			}
		}
		assert.NoError(t, err)
		assert.False(t, p.Exists(t), "the lock is free when Release returns")
	})
	t.Run("server paused", func(t *testing.T) {
		t.Parallel()
		locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
			lease := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{Lease: time.Minute})))
			p.Server.Pause()

			start := time.Now()
			err := lease.Release(ended)
			took := time.Since(start)
			valid := lease.Valid()
			p.Server.Resume()

			assert.ErrorIs(t, err, context.Canceled, "the error says that Redis did not confirm, and why")
			assert.Less(t, took, 3*time.Second, "Release waits for a short time even if ctx has ended")
			assert.False(t, valid, "the lease is over for the caller")
			locktest.Await(t, "the runtime to release the lock in the background", func() bool { return !p.Exists(t) })
		})
	})
}

// Release panics if its context is nil. After that the lease is still held, and can be released.
func TestRelease_WithANilContext(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		lease := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
		var none context.Context
		assert.Panics(t, func() { _ = lease.Release(none) })
		assert.True(t, lease.Valid())
		locktest.Release(t, lease)
		assert.False(t, p.Exists(t))
	})
}
