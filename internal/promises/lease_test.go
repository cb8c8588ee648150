package promises_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// skewedClock runs faster or slower than the server's.
type skewedClock struct {
	clock.System
	rate float64
}

func (c skewedClock) Now() time.Duration {
	return time.Duration(float64(c.System.Now()) * c.rate)
}

func (c skewedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return skewedTimer{c.System.AfterFunc(c.real(d), f), c}
}

func (c skewedClock) real(d time.Duration) time.Duration { return time.Duration(float64(d) / c.rate) }

type skewedTimer struct {
	clock.Timer
	clock skewedClock
}

func (t skewedTimer) Reset(d time.Duration) bool { return t.Timer.Reset(t.clock.real(d)) }

// severed is a holder whose link to the server is going to fail.
type severed struct {
	place *locktest.Place
	proxy *faultproxy.Proxy
	lease *holdfast.Lease
	after time.Duration // the link fails at `after` plus the length of a lease, counted from the start of the test
	how   func(on bool)
	down  bool
	gone  bool // the key was seen to be gone
}

func TestPromise_ValidOnlyBeforeExpiry(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		const holders = 16
		lease := locktest.Unhurried(300 * time.Millisecond)
		all := make([]*severed, holders)
		start := time.Now()
		for i := range all {
			all[i] = newSevered(t, p, lease, i, time.Duration(i)*lease/holders)
		}

		looks := time.NewTicker(time.Millisecond)
		defer looks.Stop()
		for gone := 0; gone < holders; <-looks.C {
			require.Less(t, time.Since(start), locktest.Patience, "waiting for the server to expire all keys")
			for _, s := range all {
				if !s.down && time.Since(start) >= s.after+lease {
					s.how(true)
					s.down = true
				}
			}
			gone = lookAt(t, p.Redis, all)
		}

		for _, s := range all {
			s.proxy.Heal() // late renewals arrive now
		}
		locktest.Stays(t, "no lease is valid again, and no key exists again", lease, func() bool { return lookAt(t, p.Redis, all) == holders })
	})
}

// newSevered acquires a lock over a link of its own. Depending on `number`, the holder's clock is 0.5 percent slower than the server's clock, 0.5
// percent faster, or equally fast.
func newSevered(t *testing.T, p *locktest.Place, lease time.Duration, number int, after time.Duration) *severed {
	s := &severed{place: p.Another(t), proxy: faultproxy.New(t, p.Addr), after: after}
	clock := skewedClock{clock.NewSystem(), []float64{0.995, 1, 1.005}[number%3]}
	rt := locktest.NewRuntime(t, locktest.NewClient(t, s.proxy.Addr()), holdfast.Options{
		Lease: lease, Logger: locktest.Quiet(), System: locktest.SystemWith(t, &actors.Seams{Clock: clock}),
	})
	t.Cleanup(s.proxy.Heal)
	s.how = s.proxy.Blackhole // renewals do not arrive at the server
	if number%4 == 1 {
		s.how = s.proxy.SwallowReplies // renewals arrive, but their replies do not
	}
	if number%4 == 3 {
		s.lease = locktest.Acquire(t, s.place.Lock(rt), holdfast.WithLease(2*lease))
		require.NoError(t, s.lease.Extend(t.Context(), lease*3/2))
	} else {
		s.lease = locktest.Acquire(t, s.place.Lock(rt))
	}
	return s
}

// lookAt asks the server which keys are gone, and returns their number. It fails the test if a key is gone but its lease is still valid, or if a
// key that was gone exists again.
func lookAt(t *testing.T, client redis.UniversalClient, all []*severed) (gone int) {
	pipe := client.Pipeline()
	there := make([]*redis.IntCmd, len(all))
	for i, s := range all {
		there[i] = pipe.Exists(context.Background(), s.place.Name)
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
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		next := p.Runtime(t, holdfast.Options{})
		for _, options := range [][]holdfast.AcquireOption{nil, {holdfast.WithLease(lossLease)}} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range 3 { // on a busy machine one loss may be reported late, but not three in a row
					if showLossIsTold(t, p.Another(t), next, options) {
						return
					}
				}
				assert.Fail(t, "a loss was reported late")
			})
		}
	})
}

const lossLease = 2 * time.Second // the margin between the local deadline and the server's is 22 ms

// showLossIsTold lets a lease expire while its holder cannot reach the server. It reports whether the holder learned of the loss in time.
func showLossIsTold(t *testing.T, p *locktest.Place, next *holdfast.Runtime, options []holdfast.AcquireOption) (inTime bool) {
	stalls := locktest.WatchStalls(t, p)
	var events locktest.Recorder
	rt, proxy := p.Proxied(t, holdfast.Options{Lease: lossLease, OnEvent: events.Record})
	lease := locktest.Acquire(t, p.Lock(rt), options...)
	ctx, cancel := lease.Context(t.Context())
	defer cancel()
	granted := make(chan time.Time, 1)
	go func() {
		other, err := p.Lock(next).Acquire(context.Background())
		granted <- time.Now()
		assert.False(t, lease.Valid(), "the next holder is granted the lock after the deadline")
		if assert.NoError(t, err) {
			assert.NoError(t, other.Release(context.Background()))
		}
	}()
	proxy.Blackhole(true)
	stalls.Take()

	deadline := lastDeadline(t, lease)
	doneAt := locktest.Closed(t, "Done", lease.Done())
	ctxAt := locktest.Closed(t, "the context", ctx.Done())
	grantedAt := <-granted
	late := stalls.Take()

	assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
	assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLeaseLost)
	assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
	locktest.Await(t, "the event", func() bool { return len(locktest.Recorded[holdfast.LeaseLost](&events)) == 1 })
	t.Logf("Done %v and the context %v after the deadline, the next holder %v; stalls up to %v",
		doneAt.Sub(deadline), ctxAt.Sub(deadline), grantedAt.Sub(deadline), late)
	told := ctxAt
	if doneAt.After(told) {
		told = doneAt
	}
	return told.Sub(deadline) <= 20*time.Millisecond+5*late && (told.Before(grantedAt) || late >= 10*time.Millisecond)
}

// lastDeadline waits until a lease is no longer valid, and returns its last deadline.
func lastDeadline(t *testing.T, lease *holdfast.Lease) (deadline time.Time) {
	locktest.Await(t, "the deadline", func() bool {
		if until := lease.ExpiresAt(); !until.IsZero() {
			deadline = until
		}
		return !lease.Valid()
	})
	return deadline
}

func TestPromise_DeletionIsToldWithinAThirdOfTheLease(t *testing.T) {
	t.Parallel()
	lease := locktest.Unhurried(1500 * time.Millisecond)
	ways := map[string]func(t *testing.T, p *locktest.Place){
		"deleted": func(t *testing.T, p *locktest.Place) { require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err()) },
		"taken over": func(t *testing.T, p *locktest.Place) {
			require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
			require.NoError(t, p.Redis.HSet(t.Context(), p.Name, locktest.Stranger(1), 1).Err())
		},
		"replaced": func(t *testing.T, p *locktest.Place) {
			require.NoError(t, p.Redis.Set(t.Context(), p.Name, "text", 0).Err())
		},
		"force-released": func(t *testing.T, p *locktest.Place) {
			held, err := p.Lock(p.Runtime(t, holdfast.Options{})).ForceRelease(t.Context())
			require.NoError(t, err)
			assert.True(t, held)
		},
	}
	for way, end := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
				stalls := locktest.WatchStalls(t, p)
				var events locktest.Recorder
				rt := p.Runtime(t, holdfast.Options{Lease: lease, OnEvent: events.Record})
				held := locktest.Acquire(t, p.Lock(rt))
				ctx, cancel := held.Context(t.Context())
				defer cancel()
				end(t, p)
				endedAt := time.Now()
				told := locktest.Closed(t, "Done", held.Done()).Sub(endedAt)

				assert.LessOrEqual(t, told, lease/3+stalls.Slack())
				assert.False(t, held.Valid())
				assert.ErrorIs(t, held.Err(), holdfast.ErrLeaseLost)
				locktest.Closed(t, "the context", ctx.Done())
				assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLeaseLost)
				assert.ErrorIs(t, held.Release(t.Context()), holdfast.ErrLeaseLost)
				locktest.Await(t, "the event", func() bool { return len(locktest.Recorded[holdfast.LeaseLost](&events)) == 1 })
				assert.Equal(t, p.Name, locktest.Recorded[holdfast.LeaseLost](&events)[0].Lock())
			})
		})
	}
}

func TestPromise_WatchdogKeepsAHold(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		for lease := 300 * time.Millisecond; lease < 10*time.Second; lease *= 2 {
			stalls := locktest.WatchStalls(t, p)
			var events locktest.Recorder
			rt := p.Runtime(t, holdfast.Options{Lease: lease, RenewBatch: 4, OnEvent: events.Record})
			kept := holdMany(t, p, rt, p.Runtime(t, holdfast.Options{}), 10, 6*lease)
			if worst := stalls.Take(); !kept && worst > lease/10 { // this process stalled; others, such as the server, may have stalled even longer
				t.Logf("this process was not run for %v, too long for leases of %v", worst, lease)
				continue
			}
			require.True(t, kept, "%v", locktest.Recorded[holdfast.Event](&events))
			return
		}
		t.Skip("this machine is too busy to show it")
	})
}

// holdMany holds locks for d and checks them all the time. It reports whether all were renewed, none was lost, and nobody else could acquire
// one.
func holdMany(t *testing.T, p *locktest.Place, rt, other *holdfast.Runtime, locks int, d time.Duration) bool {
	kept := true
	places, leases := make([]*locktest.Place, locks), make([]*holdfast.Lease, locks)
	for i := range places {
		places[i] = p.Another(t)
		leases[i] = locktest.Acquire(t, places[i].Lock(rt))
	}
	first := leases[0].ExpiresAt()
	looks := time.NewTicker(5 * time.Millisecond)
	defer looks.Stop()
	for end, i := time.Now().Add(d), 0; time.Now().Before(end); <-looks.C {
		i = (i + 1) % (3 * locks)
		kept = kept && leases[i%locks].Valid() && places[i%locks].Exists(t)
		if i%3 != 0 {
			continue
		}
		if stolen, err := places[i%locks].Lock(other).TryAcquire(t.Context()); err == nil {
			kept = false
			locktest.Release(t, stolen)
		}
	}
	kept = kept && leases[0].ExpiresAt().Sub(first) > d/2
	for i, lease := range leases {
		kept = lease.Release(t.Context()) == nil && !places[i].Exists(t) && kept
	}
	return kept
}
