package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// clockLease is longer than a server takes to notice a step of its clock, and short enough for a test to see some renewals.
const clockLease = 1200 * time.Millisecond

// clocked has a server whose clock can be set, a runtime that holds a lock of every kind on this server, and another runtime that wants these locks.
type clocked struct {
	places        []*locktest.Place
	clock         *redistest.Clock
	holder, other *holdfast.Runtime
	renewed       []*holdfast.Lease // one for each place
	fixed         []*holdfast.Lease // one for each place, of another lock than the renewed lease
	permit        *holdfast.Lease   // of the only permit
}

func newClocked(t *testing.T) *clocked {
	server, clock := redistest.StartWithClock(t)
	c := &clocked{places: locktest.OnServer(t, server), clock: clock}
	c.holder, c.other = c.places[0].Runtime(t, holdfast.Options{Lease: clockLease}), c.places[0].Runtime(t, holdfast.Options{Lease: clockLease})
	for _, p := range c.places {
		c.renewed = append(c.renewed, locktest.Acquire(t, p.Lock(c.holder)))
		c.fixed = append(c.fixed, locktest.Acquire(t, p.Named(p.Name+"-fixed").Lock(c.holder), holdfast.WithLease(time.Minute)))
	}
	set, err := c.permits(c.other).TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, set)
	c.permit = locktest.AcquirePermit(t, c.permits(c.holder))
	return c
}

func (c *clocked) permits(rt *holdfast.Runtime) *holdfast.PermitSemaphore {
	return rt.PermitSemaphore(c.places[0].Name + "-permits")
}

// When a server's clock steps forward, the server expires the keys of locks early. A holder cannot predict this loss, but learns of it within a
// third of the lease, however large the step is. The next holder gets the lock at once, with a larger token. The waiters of a fair lock are served
// too.
func TestFault_ServerClockStepsForward(t *testing.T) {
	t.Parallel()
	// Each step is long enough that the permit expires, too: Redis keeps a permit for 10 s after its lease.
	for _, step := range []time.Duration{20 * time.Second, time.Hour, 30 * 24 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			c := newClocked(t)
			stalls := locktest.WatchStalls(t, &locktest.Place{Addr: redistest.Shared(t).Addr()})
			last := lastTold(t, append(c.renewed[:len(c.renewed):len(c.renewed)], c.permit))
			var waiting []*holdfast.Pending
			for _, p := range c.places {
				waiting = append(waiting, p.Lock(c.other).AcquireAsync(t.Context()))
			}
			stalls.Take()
			c.clock.Set(step)
			stepped := time.Now()
			locktest.Release(t, locktest.AcquirePermit(t, c.permits(c.other)))
			told := last().Sub(stepped)
			bound := clockLease/3 + 100*time.Millisecond + 5*stalls.Take()
			assert.LessOrEqual(t, told, bound, "told")
			for i, p := range c.places {
				next, err := waiting[i].Lease()
				require.NoError(t, err, p.Kind.Name)
				assert.ErrorIs(t, c.renewed[i].Err(), holdfast.ErrLeaseLost, p.Kind.Name)
				assert.Equal(t, map[string]string{next.ID(): "1"}, p.Fields(t))
				if p.Kind.Fenced {
					assert.Greater(t, next.Token(), c.renewed[i].Token())
				}
				awaitRenewal(t, next)
				locktest.Release(t, next)
			}
			c.showFixedAfter(t, step)
			locktest.Await(t, "nothing to be left", func() bool { return len(locktest.Keys(t, c.places[0].Redis)) == 1 }) // the key of the number of permits stays
			assert.NoError(t, c.holder.Check(t.Context()), "it does not depend on clocks")
		})
	}
}

// showFixedAfter asserts that the release of a fixed lease reports the loss if the step was longer than the lease, and succeeds otherwise.
func (c *clocked) showFixedAfter(t *testing.T, step time.Duration) {
	for i, lease := range c.fixed {
		if step < time.Minute {
			locktest.Release(t, lease)
			continue
		}
		assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost, c.places[i].Kind.Name)
	}
}

// A server whose clock steps back keeps the keys of locks for longer. Holders still exclude each other, fixed leases end on time by their holders'
// clocks, and tokens keep growing. The price is that the locks of dead holders stay taken for longer.
func TestFault_ServerClockStepsBack(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Minute, 30 * 24 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			c := newClocked(t)
			c.clock.Set(-step)
			for _, fixed := range c.fixed {
				require.NoError(t, fixed.Extend(t.Context(), clockLease))
			}
			for i, p := range c.places {
				_, err := p.Lock(c.other).TryAcquire(t.Context())
				assert.ErrorIs(t, err, holdfast.ErrNotAcquired, p.Kind.Name)
				awaitRenewal(t, c.renewed[i])
				assert.Less(t, p.Redis.PTTL(t.Context(), p.Name).Val(), clockLease+time.Second, "renewed by the new time")
				waiting := p.Lock(c.other).AcquireAsync(t.Context())
				p.WaitForWaiting(t, c.other, 1)
				token := c.renewed[i].Token()
				locktest.Release(t, c.renewed[i])
				next, err := waiting.Lease()
				require.NoError(t, err)
				assert.True(t, next.Token() > token || !p.Kind.Fenced, "tokens grow")
				locktest.Release(t, next)
				locktest.Closed(t, "the end of the fixed lease", c.fixed[i].Done())
				assert.ErrorIs(t, c.fixed[i].Err(), holdfast.ErrLeaseLost)
			}
			_, err := c.permits(c.other).TryAcquire(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired, "of permits")
			awaitRenewal(t, c.permit)
			locktest.Release(t, c.permit)
			assert.NoError(t, c.holder.Check(t.Context()), "it does not depend on clocks")
			locktest.Await(t, "nothing to be left", func() bool { return len(locktest.Keys(t, c.places[0].Redis)) == 1 })
		})
	}
}

// If the server's clock steps back, the lock of a dead holder stays taken until the clock has caught up, as documented. Waiters get ErrNotAcquired at
// the end of their wait.
func TestFault_DeadHolderAndServerClockStepsBack(t *testing.T) {
	t.Parallel()
	lease := locktest.Unhurried(clockLease) // the server must notice the step before the lease ends
	server, clock := redistest.StartWithClock(t)
	places := locktest.OnServer(t, server)
	var links []*faultproxy.Proxy
	for _, p := range places {
		dead, proxy := p.Proxied(t, holdfast.Options{Lease: lease})
		held := locktest.Acquire(t, p.Lock(dead))
		links = append(links, proxy)
		defer proxy.Heal()
		defer func() { <-held.Done() }()
	}
	for _, proxy := range links { // only after all acquires: from here on, the leases run out, and the clock must step back in time
		proxy.Blackhole(true)
	}
	clock.Set(-time.Hour)
	rt := places[0].Runtime(t, holdfast.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*lease)
	defer cancel()
	var waiting []*holdfast.Pending
	for _, p := range places {
		waiting = append(waiting, p.Lock(rt).AcquireAsync(ctx))
	}
	for i, p := range places {
		_, err := waiting[i].Lease()
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired, p.Kind.Name)
	}
	clock.Set(0)
	for _, p := range places {
		locktest.Release(t, locktest.Acquire(t, p.Lock(rt)))
	}
}

// Client and server need not agree on the time of day: the protocol does not use the client's wall clock. The runtime works just as well with a
// server whose clock is wrong by a constant.
func TestFault_WallClocksDiffer(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	for _, ahead := range []time.Duration{10 * 365 * 24 * time.Hour, time.Hour, -time.Hour, -10 * 365 * 24 * time.Hour} {
		clock.Set(ahead)
		require.NoError(t, server.Client(t).FlushAll(t.Context()).Err()) // otherwise tokens would decrease with the clock
		places := locktest.OnServer(t, server)
		rt, other := places[0].Runtime(t, holdfast.Options{Lease: clockLease}), places[0].Runtime(t, holdfast.Options{Lease: clockLease})
		assert.NoError(t, rt.Check(t.Context()), "%v ahead", ahead)
		for _, p := range places {
			held, fixed := locktest.Acquire(t, p.Lock(rt)), locktest.Acquire(t, p.Another(t).Lock(rt), holdfast.WithLease(time.Minute))
			waiting := p.Lock(other).AcquireAsync(t.Context())
			p.WaitForWaiting(t, other, 1)
			ttl := p.Redis.PTTL(t.Context(), p.Name).Val()
			assert.True(t, 0 < ttl && ttl <= clockLease, "%v ahead: %v", ahead, ttl)
			locktest.Release(t, held)
			next, err := waiting.Lease()
			require.NoError(t, err)
			locktest.Release(t, next)
			locktest.Release(t, fixed)
		}
		require.NoError(t, rt.Close(t.Context()))
	}
}
