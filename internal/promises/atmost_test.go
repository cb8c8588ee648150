package promises_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// bounded returns the kinds of lock whose leases may have bounds.
func bounded() (kinds []locktest.Kind) {
	for _, kind := range locktest.Kinds {
		if !kind.Deaf {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// A lease acquired WithAtMost is renewed until its at-most time, never past it. At that time the lease is lost, and the reason is "at most".
// The next waiter gets the lock at once.
func TestAtMost_LeaseIsLostThen(t *testing.T) {
	t.Parallel()
	for _, kind := range bounded() {
		for most, options := range map[time.Duration][]holdfast.AcquireOption{
			50 * time.Millisecond:   nil,
			10 * time.Second:        nil,
			100 * time.Second:       nil,
			9999 * time.Millisecond: {holdfast.WithRenewedLease(300 * time.Millisecond)},
			time.Second:             {holdfast.WithRenewedLease(10 * time.Minute)},
		} {
			t.Run(kind.Name+" "+most.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					server := locktest.NewBubble(t)
					events := make(chan holdfast.LeaseLost, 1)
					rt := server.Runtime(t, &locktest.Pipes{}, holdfast.Options{OnEvent: func(e holdfast.Event) { events <- e.(holdfast.LeaseLost) }})
					other := kind.Lock(server.Runtime(t, &locktest.Pipes{}, holdfast.Options{}), "orders")
					lock := kind.Lock(rt, "orders")

					began := time.Now()
					held, err := lock.Acquire(t.Context(), append(options, holdfast.WithAtMost(most))...)
					require.NoError(t, err)
					waiting := other.AcquireAsync(t.Context())
					for lost := false; !lost; {
						synctest.Wait()
						if server.Exists("orders") && held.Err() == nil {
							require.LessOrEqual(t, server.TTL("orders"), most-time.Since(began)+time.Millisecond, "after %v", time.Since(began))
						}
						select {
						case <-held.Done():
							lost = true
						case <-time.After(most / 33):
						}
					}
					assert.InDelta(t, most, time.Since(began), float64(most/100+3*time.Millisecond))
					assert.LessOrEqual(t, time.Since(began), most)
					event := <-events
					assert.Equal(t, holdfast.LeaseLost{Kind: holdfast.Kind(kind.Name), Name: "orders", ID: held.ID(), Reason: "at most", Held: event.Held}, event)
					assert.InDelta(t, most, event.Held, float64(most/100+3*time.Millisecond))
					err = held.Release(t.Context())
					assert.ErrorIs(t, err, holdfast.ErrLeaseLost)
					assert.ErrorContains(t, err, "at most")

					next, err := waiting.Lease()
					require.NoError(t, err)
					assert.Less(t, time.Since(began), most+50*time.Millisecond)
					require.NoError(t, next.Release(t.Context()))
				})
			})
		}
	}
}

// Before its at-most time, a lease acquired WithAtMost is like any other lease. It can be released. If it is lost before its at-most
// time, for example because its key is deleted, the loss is noticed in time and has its own reason.
func TestAtMost_OtherEndsCountAsBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		events := make(chan holdfast.Event, 9)
		rt := server.Runtime(holdfast.Options{OnEvent: func(e holdfast.Event) { events <- e }})
		acquire := func() *holdfast.Lease {
			held, err := rt.Lock("orders").Acquire(t.Context(), holdfast.WithAtMost(100*time.Second))
			require.NoError(t, err)
			return held
		}

		held := acquire()
		<-time.After(85 * time.Second) // the key cannot be renewed past the at-most time, but the watchdog still checks it
		synctest.Wait()
		server.Lose("orders")
		lost := time.Now()
		<-held.Done()
		assert.LessOrEqual(t, time.Since(lost), 10*time.Second)
		assert.Equal(t, holdfast.LossDeleted, (<-events).(holdfast.LeaseLost).Reason)

		held = acquire()
		server.Cut(rt)
		<-held.Done()
		for reason := holdfast.LossReason(""); reason == ""; {
			if lost, ok := (<-events).(holdfast.LeaseLost); ok {
				reason = lost.Reason
				assert.Equal(t, holdfast.LossExpired, reason)
			}
		}
		server.Heal(rt)

		held = acquire()
		require.NoError(t, held.Release(t.Context()))
		<-time.After(2 * time.Minute)
		synctest.Wait()
		assert.ErrorIs(t, held.Err(), holdfast.ErrNotHeld)
		for len(events) > 0 {
			_, lost := (<-events).(holdfast.LeaseLost)
			assert.False(t, lost)
		}
	})
}

// A re-entry does not prolong an at-most time. The lease of a multi lock ends with the first of its members' leases.
func TestAtMost_ReentriesAndMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := holdfasttest.New(t).Runtime()
		owner := holdfast.WithOwner(rt.NewOwner())
		began := time.Now()
		first, err := rt.Lock("orders").Acquire(t.Context(), owner, holdfast.WithAtMost(10*time.Second))
		require.NoError(t, err)
		<-time.After(5 * time.Second)
		second, err := rt.Lock("orders").Acquire(t.Context(), owner, holdfast.WithAtMost(time.Hour))
		require.NoError(t, err)
		<-second.Done()
		<-first.Done()
		assert.InDelta(t, 10, time.Since(began).Seconds(), 0.2)

		began = time.Now()
		both, err := holdfast.Multi(rt.Lock("a"), rt.FencedLock("b")).Acquire(t.Context(), holdfast.WithAtMost(time.Minute))
		require.NoError(t, err)
		<-both.Done()
		assert.InDelta(t, 60, time.Since(began).Seconds(), 0.7)
		assert.ErrorIs(t, both.Err(), holdfast.ErrLeaseLost)
		synctest.Wait()
		again, err := holdfast.Multi(rt.Lock("a"), rt.FencedLock("b")).Acquire(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, 60, time.Since(began).Seconds(), 1)
		require.NoError(t, again.Release(t.Context()))
	})
}

// An invalid option is rejected before anything is sent.
func TestAtMost_Invalid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := holdfasttest.New(t).Runtime()
		for _, d := range []time.Duration{-1, 0, 49 * time.Millisecond, 25 * time.Hour} {
			_, err := rt.Lock("orders").Acquire(context.Background(), holdfast.WithAtMost(d))
			assert.ErrorIs(t, err, holdfast.ErrInvalid, "%v", d)
		}
		for _, lock := range []*holdfast.Lock{rt.SpinLock("orders"), rt.RWLock("orders").Read()} {
			_, err := lock.Acquire(context.Background(), holdfast.WithAtMost(time.Second))
			assert.ErrorIs(t, err, holdfast.ErrInvalid)
		}
		_, err := rt.PermitSemaphore("permits").Acquire(context.Background(), holdfast.WithAtMost(time.Second))
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		_, err = rt.Lock("orders").Acquire(context.Background(), holdfast.WithAtMost(time.Second), holdfast.WithLease(time.Second))
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
	})
}
