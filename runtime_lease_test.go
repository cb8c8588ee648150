package holdfast_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
)

// skewedClock runs faster or slower than the server's.
type skewedClock struct {
	actors.SystemClock
	rate float64
}

func (c skewedClock) Now() time.Duration {
	return time.Duration(float64(c.SystemClock.Now()) * c.rate)
}

func (c skewedClock) AfterFunc(d time.Duration, f func()) actors.Timer {
	return skewedTimer{c.SystemClock.AfterFunc(c.real(d), f), c}
}

func (c skewedClock) real(d time.Duration) time.Duration { return time.Duration(float64(d) / c.rate) }

type skewedTimer struct {
	actors.Timer
	clock skewedClock
}

func (t skewedTimer) Reset(d time.Duration) bool { return t.Timer.Reset(t.clock.real(d)) }

// severed is a holder whose link to the server is going to fail.
type severed struct {
	place *place
	proxy *faultproxy.Proxy
	lease *holdfast.Lease
	after time.Duration // of the link's life
	how   func(on bool)
	down  bool
	gone  bool // somebody has seen that the key is not there any more
}

func TestPromise_ValidOnlyBeforeExpiry(t *testing.T) {
	t.Parallel()
	onOwnServer(t, func(t *testing.T, p *place) {
		const lease, holders = 300 * time.Millisecond, 16
		all := make([]*severed, holders)
		start := time.Now()
		for i := range all {
			all[i] = newSevered(t, p, lease, i, time.Duration(i)*lease/holders)
		}

		looks := time.NewTicker(time.Millisecond)
		defer looks.Stop()
		for gone := 0; gone < holders; <-looks.C {
			require.Less(t, time.Since(start), patience, "the server expires all of them")
			for _, s := range all {
				if !s.down && time.Since(start) >= s.after+lease {
					s.how(true)
					s.down = true
				}
			}
			gone = lookAt(t, p.redis, all)
		}

		for _, s := range all {
			s.proxy.Heal() // late renewals arrive now
		}
		stays(t, "nothing is valid or there again", lease, func() bool { return lookAt(t, p.redis, all) == holders })
	})
}

// newSevered is a holder on a link of its own, whose clock differs from the server's by -0.5, 0 or 0.5 percent.
func newSevered(t *testing.T, p *place, lease time.Duration, number int, after time.Duration) *severed {
	s := &severed{place: p.another(t), proxy: faultproxy.New(t, p.addr), after: after}
	clock := skewedClock{actors.NewSystemClock(), []float64{0.995, 1, 1.005}[number%3]}
	rt, err := holdfast.NewWithClock(newClient(t, s.proxy.Addr()), holdfast.Options{Lease: lease, Logger: quiet()}, clock)
	require.NoError(t, err)
	closeAtEnd(t, rt)
	t.Cleanup(s.proxy.Heal)
	s.how = s.proxy.Blackhole // renewals do not arrive
	if number%4 == 1 {
		s.how = s.proxy.SwallowReplies // they do, but nobody knows
	}
	if number%4 == 3 {
		s.lease = acquire(t, s.place.lock(rt), holdfast.WithLease(2*lease))
		require.NoError(t, s.lease.Extend(t.Context(), lease*3/2))
	} else {
		s.lease = acquire(t, s.place.lock(rt))
	}
	return s
}

// lookAt asks the server for all keys, and counts those that are gone: what is gone must not be valid.
func lookAt(t *testing.T, client *redis.Client, all []*severed) (gone int) {
	pipe := client.Pipeline()
	there := make([]*redis.IntCmd, len(all))
	for i, s := range all {
		there[i] = pipe.Exists(context.Background(), s.place.name)
	}
	_, err := pipe.Exec(context.Background())
	require.NoError(t, err)
	for i, s := range all {
		s.gone = s.gone || there[i].Val() == 0
		if s.gone {
			gone++
			require.False(t, s.lease.Valid(), "holder %d was valid after the server had expired its key", i)
			require.Zero(t, there[i].Val(), "the key of holder %d came back", i)
		}
	}
	return gone
}

func TestPromise_LossIsToldBeforeTheNextHolder(t *testing.T) {
	t.Parallel()
	onOwnServer(t, func(t *testing.T, p *place) {
		next := p.runtime(t, holdfast.Options{})
		for _, options := range [][]holdfast.AcquireOption{nil, {holdfast.WithLease(lossLease)}} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				showLossIsTold(t, p.another(t), next, options)
			})
		}
	})
}

const lossLease = 2 * time.Second // the margin between the local deadline and the server's is 22 ms

func showLossIsTold(t *testing.T, p *place, next *holdfast.Runtime, options []holdfast.AcquireOption) {
	stalls := watchStalls(t, p)
	var events recorder
	rt, proxy := p.proxied(t, holdfast.Options{Lease: lossLease, OnEvent: events.record})
	lease := acquire(t, p.lock(rt), options...)
	ctx, cancel := lease.Context(t.Context())
	defer cancel()
	granted := make(chan time.Time, 1)
	go func() {
		other, err := p.lock(next).Acquire(context.Background())
		granted <- time.Now()
		assert.False(t, lease.Valid(), "the other's grant comes after the deadline")
		if assert.NoError(t, err) {
			assert.NoError(t, other.Release(context.Background()))
		}
	}()
	proxy.Blackhole(true)
	stalls.take()

	deadline := lastDeadline(t, lease)
	doneAt := closed(t, "Done", lease.Done())
	ctxAt := closed(t, "the context", ctx.Done())
	grantedAt := <-granted
	late := stalls.take()

	assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
	assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLeaseLost)
	assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
	assert.WithinDuration(t, deadline, doneAt, 20*time.Millisecond+5*late, "told at the deadline")
	assert.WithinDuration(t, deadline, ctxAt, 20*time.Millisecond+5*late, "told at the deadline")
	if late < 10*time.Millisecond {
		assert.True(t, ctxAt.Before(grantedAt), "told %v after the other's grant", ctxAt.Sub(grantedAt))
	}
	await(t, "the event", func() bool { return len(recorded[holdfast.LeaseLost](&events)) == 1 })
}

// lastDeadline watches a lease until it is not valid, and tells what its deadline was.
func lastDeadline(t *testing.T, lease *holdfast.Lease) (deadline time.Time) {
	await(t, "the deadline", func() bool {
		if until := lease.ExpiresAt(); !until.IsZero() {
			deadline = until
		}
		return !lease.Valid()
	})
	return deadline
}

func TestPromise_DeletionIsToldWithinAThirdOfTheLease(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond
	ways := map[string]func(t *testing.T, p *place){
		"deleted": func(t *testing.T, p *place) { require.NoError(t, p.redis.Del(t.Context(), p.name).Err()) },
		"taken over": func(t *testing.T, p *place) {
			require.NoError(t, p.redis.Del(t.Context(), p.name).Err())
			require.NoError(t, p.redis.HSet(t.Context(), p.name, "somebody:1", 1).Err())
		},
		"replaced": func(t *testing.T, p *place) { require.NoError(t, p.redis.Set(t.Context(), p.name, "text", 0).Err()) },
		"force-released": func(t *testing.T, p *place) {
			held, err := p.lock(p.runtime(t, holdfast.Options{})).ForceRelease(t.Context())
			require.NoError(t, err)
			assert.True(t, held)
		},
	}
	for way, end := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, p *place) {
				stalls := watchStalls(t, p)
				var events recorder
				rt := p.runtime(t, holdfast.Options{Lease: lease, OnEvent: events.record})
				held := acquire(t, p.lock(rt))
				ctx, cancel := held.Context(t.Context())
				defer cancel()
				end(t, p)
				endedAt := time.Now()
				told := closed(t, "Done", held.Done()).Sub(endedAt)

				assert.LessOrEqual(t, told, lease/3+50*time.Millisecond+5*stalls.take())
				assert.False(t, held.Valid())
				assert.ErrorIs(t, held.Err(), holdfast.ErrLeaseLost)
				closed(t, "the context", ctx.Done())
				assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLeaseLost)
				assert.ErrorIs(t, held.Release(t.Context()), holdfast.ErrLeaseLost)
				await(t, "the event", func() bool { return len(recorded[holdfast.LeaseLost](&events)) == 1 })
				assert.Equal(t, p.name, recorded[holdfast.LeaseLost](&events)[0].Lock())
			})
		})
	}
}

func TestPromise_WatchdogKeepsAHold(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		for lease := 300 * time.Millisecond; lease < 5*time.Second; lease *= 2 {
			stalls := watchStalls(t, p)
			var events recorder
			rt := p.runtime(t, holdfast.Options{Lease: lease, RenewBatch: 4, OnEvent: events.record})
			kept := holdMany(t, p, rt, p.runtime(t, holdfast.Options{}), 10, 6*lease)
			if worst := stalls.take(); !kept && worst > lease/4 {
				t.Logf("this process was not run for %v, too long for leases of %v", worst, lease)
				continue
			}
			require.True(t, kept, "%v", recorded[holdfast.Event](&events))
			return
		}
		require.Fail(t, "this machine is too busy to show it")
	})
}

// holdMany holds locks for that long, looking at them all the time. It tells whether none of them was lost or to be had.
func holdMany(t *testing.T, p *place, rt, other *holdfast.Runtime, locks int, d time.Duration) bool {
	kept := true
	places, leases := make([]*place, locks), make([]*holdfast.Lease, locks)
	for i := range places {
		places[i] = p.another(t)
		leases[i] = acquire(t, places[i].lock(rt))
	}
	first := leases[0].ExpiresAt()
	looks := time.NewTicker(5 * time.Millisecond)
	defer looks.Stop()
	for end, i := time.Now().Add(d), 0; time.Now().Before(end); <-looks.C {
		i = (i + 1) % (3 * locks)
		kept = kept && leases[i%locks].Valid() && places[i%locks].exists(t)
		if i%3 != 0 {
			continue
		}
		if stolen, err := places[i%locks].lock(other).TryAcquire(t.Context()); err == nil {
			kept = false
			release(t, stolen)
		}
	}
	kept = kept && leases[0].ExpiresAt().Sub(first) > d/2
	for i, lease := range leases {
		kept = lease.Release(t.Context()) == nil && kept
		assert.False(t, places[i].exists(t))
	}
	return kept
}
