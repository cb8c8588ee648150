package promises_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

func TestActorAPI_AcquireHandOverRelease(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		first, second := locktest.NewActor(t, rt, p.Lock(rt)), locktest.NewActor(t, rt, p.Lock(rt))
		first.Ask(p.AcquireMessage(7))
		granted := locktest.Answer[*protocol.Granted](t, first)
		assert.Equal(t, uint64(7), granted.ID)
		assert.Equal(t, p.Name, granted.Lock)
		assert.Contains(t, p.Fields(t), granted.LeaseID)
		assert.InDelta(t, 30, time.Until(granted.Until).Seconds(), 3)

		second.Ask(*p.AcquireMessage(1)) // a value works as well as a pointer
		p.WaitForWaiting(t, rt, 1)
		third, err := p.Lock(rt).TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.Nil(t, third)
		first.Ask(p.ReleaseMessage(8, granted.Serial))
		released := locktest.Answer[*protocol.Released](t, first)
		require.NoError(t, released.Err)
		assert.Equal(t, uint64(8), released.ID)
		handed := locktest.Answer[*protocol.Granted](t, second)
		assert.NotEqual(t, granted.Serial, handed.Serial, "serials name leases, not grants")

		first.Ask(p.ReleaseMessage(9, granted.Serial))
		stale := locktest.Answer[*protocol.Released](t, first)
		require.ErrorIs(t, stale.Err, holdfast.ErrNotHeld)
		assert.True(t, p.Exists(t), "a stale release does not touch the next holder")
		second.Ask(p.ReleaseMessage(2, handed.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, second).Err)
		locktest.Await(t, "the key to go", func() bool { return !p.Exists(t) })
	})
}

func TestActorAPI_Refusals(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		lease, err := p.Lock(other).Acquire(t.Context())
		require.NoError(t, err)
		c := locktest.NewActor(t, rt, p.Lock(rt))
		refused := func(change func(*protocol.Acquire), want error) *protocol.Refused {
			t.Helper()
			m := p.AcquireMessage(3)
			change(m)
			c.Ask(m)
			answer := locktest.Answer[*protocol.Refused](t, c)
			require.ErrorIs(t, answer.Err, want)
			assert.Equal(t, uint64(3), answer.ID)
			return answer
		}
		busy := refused(func(m *protocol.Acquire) { m.Try = true }, holdfast.ErrNotAcquired)
		var by *holdfast.BusyError
		require.ErrorAs(t, busy.Err, &by)
		assert.Equal(t, lease.ID(), by.Holder)
		refused(func(m *protocol.Acquire) { m.Wait = 50 * time.Millisecond }, holdfast.ErrNotAcquired)
		refused(func(m *protocol.Acquire) { m.Wait, m.Try = time.Second, true }, holdfast.ErrInvalid)
		refused(func(m *protocol.Acquire) { m.Wait = -1 }, holdfast.ErrInvalid)
		refused(func(m *protocol.Acquire) { m.Lease = time.Millisecond }, holdfast.ErrInvalid)
		refused(func(m *protocol.Acquire) { m.Lock = "" }, holdfast.ErrInvalid)
		refused(func(m *protocol.Acquire) { m.Kind = "no such kind" }, holdfast.ErrInvalid)
		refused(func(m *protocol.Acquire) { m.Owner = other.NewOwner() }, holdfast.ErrInvalid)

		c.Ask(p.AcquireMessage(4))
		p.WaitForWaiting(t, rt, 1)
		c.Ask(p.AcquireMessage(4))
		require.ErrorIs(t, locktest.Answer[*protocol.Refused](t, c).Err, holdfast.ErrInvalid, "the ID is in use")
		c.Ask(&protocol.Cancel{ID: 4, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name})
		assert.Equal(t, uint64(4), locktest.Answer[*protocol.Refused](t, c).ID)
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestActorAPI_RenewAndInspect(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		c := locktest.NewActor(t, rt, p.Lock(rt))
		renew := func(serial uint64, lease time.Duration) *protocol.Renewed {
			t.Helper()
			c.Ask(&protocol.Renew{ID: 5, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name, Serial: serial, Lease: lease})
			return locktest.Answer[*protocol.Renewed](t, c)
		}
		m := p.AcquireMessage(1)
		m.Lease = time.Minute
		c.Ask(m)
		granted := locktest.Answer[*protocol.Granted](t, c)
		renewed := renew(granted.Serial, 10*time.Minute)
		require.NoError(t, renewed.Err)
		assert.InDelta(t, 10, time.Until(renewed.Until).Minutes(), 0.5)
		require.ErrorIs(t, renew(granted.Serial, time.Millisecond).Err, holdfast.ErrInvalid)
		require.ErrorIs(t, renew(granted.Serial+1000, time.Minute).Err, holdfast.ErrNotHeld)

		c.Ask(&protocol.Inspect{ID: 6, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name})
		inspected := locktest.Answer[*protocol.Inspected](t, c)
		require.NoError(t, inspected.Err)
		assert.True(t, inspected.State.Held)
		assert.Equal(t, []holdfast.Holder{{ID: granted.LeaseID, Holds: 1}}, inspected.State.Holders)

		c.Ask(p.ReleaseMessage(2, granted.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, c).Err)
		c.Ask(p.AcquireMessage(1))
		watched := locktest.Answer[*protocol.Granted](t, c)
		require.ErrorIs(t, renew(watched.Serial, time.Minute).Err, holdfast.ErrInvalid, "the watchdog renews this one")
		c.Ask(p.ReleaseMessage(2, watched.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, c).Err)
	})
}

func TestActorAPI_LossIsTold(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{Lease: 300 * time.Millisecond})
		c := locktest.NewActor(t, rt, p.Lock(rt))
		c.Ask(p.AcquireMessage(1))
		granted := locktest.Answer[*protocol.Granted](t, c)
		require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
		lost := locktest.Answer[*protocol.Lost](t, c)
		assert.Equal(t, granted.Serial, lost.Serial)
		require.ErrorIs(t, lost.Err, holdfast.ErrLeaseLost)
	})
}

func TestActorAPI_TerminatedRequesterLeavesNothing(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		holder, waiter := locktest.NewActor(t, rt, p.Lock(rt)), locktest.NewActor(t, rt, p.Lock(rt))
		holder.Ask(p.AcquireMessage(1))
		locktest.Answer[*protocol.Granted](t, holder)
		waiter.Ask(p.AcquireMessage(1))
		p.WaitForWaiting(t, rt, 1)
		waiter.Stop()
		locktest.Await(t, "the dead waiter to leave", func() bool {
			state, err := p.Lock(rt).Inspect(t.Context())
			return assert.NoError(t, err) && state.Waiting == 0
		})
		holder.Stop()
		locktest.Await(t, "the dead holder's lock to become free", func() bool { return !p.Exists(t) })
		locktest.Await(t, "the confirmation of the release", func() bool { return rt.Stats().Released > 0 })
		stats := rt.Stats()
		assert.Equal(t, [3]uint64{1, 1, 0}, [3]uint64{stats.Acquired, stats.Released, stats.Lost})
	})
}

func TestActorAPI_WhatCannotBeAnsweredIsReported(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		dropped := make(chan holdfast.RequestDropped, 10)
		rt := p.Runtime(t, holdfast.Options{OnEvent: func(e holdfast.Event) {
			if d, ok := e.(holdfast.RequestDropped); ok {
				dropped <- d
			}
		}})
		for _, message := range []any{p.AcquireMessage(1), "not a message of the protocol"} {
			rt.System().Root.Send(p.Lock(rt).PID(), message)
			select {
			case <-dropped:
			case <-time.After(locktest.Patience):
				require.Fail(t, "no event", "%T", message)
			}
		}
		assert.False(t, p.Exists(t))
	})
}

func TestActorAPI_TwoRuntimesInOneSystem(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		system := actor.NewActorSystem(
			actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return locktest.Quiet() }),
			actor.WithDeadLetterThrottleInterval(time.Millisecond), // a goroutine of the throttle lives this long, and must end before goleak looks
		)
		defer system.Shutdown()
		one := p.Runtime(t, holdfast.Options{System: system})
		two := p.Runtime(t, holdfast.Options{System: system})
		assert.Same(t, system, one.System())
		assert.NotEqual(t, one.ID(), two.ID())
		a, b := locktest.NewActor(t, one, p.Lock(one)), locktest.NewActor(t, two, p.Lock(two))
		a.Ask(p.AcquireMessage(1))
		granted := locktest.Answer[*protocol.Granted](t, a)
		b.Ask(p.AcquireMessage(1))
		p.WaitForWaiter(t, two)
		require.NoError(t, one.Close(context.Background()))
		lost := locktest.Answer[*protocol.Lost](t, a)
		assert.Equal(t, granted.Serial, lost.Serial)
		require.ErrorIs(t, lost.Err, holdfast.ErrClosed)
		handed := locktest.Answer[*protocol.Granted](t, b)
		b.Ask(p.ReleaseMessage(2, handed.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, b).Err, "the other runtime and the system still work")
	})
}
