package holdfast_test

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

// client is an actor of the user: it sends what it is told and hands on every answer.
type client struct {
	pid     *actor.PID
	root    *actor.RootContext
	lock    *holdfast.Lock
	answers chan any
}

type ask struct{ message any }

// newActorClient spawns an actor in the runtime's system that talks to one lock.
func newActorClient(t *testing.T, rt *holdfast.Runtime, lock *holdfast.Lock) *client {
	c := &client{root: rt.System().Root, lock: lock, answers: make(chan any, 100)}
	c.pid = c.root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case ask:
			ctx.Request(lock.PID(), m.message)
		case *actor.Started, *actor.Stopping, *actor.Stopped:
		default:
			c.answers <- m
		}
	}))
	t.Cleanup(c.end)
	return c
}

func (c *client) end() { _ = c.root.StopFuture(c.pid).Wait() }

func (c *client) ask(message any) { c.root.Send(c.pid, ask{message}) }

// answerOf waits for an answer of this type; any other first fails the test.
func answerOf[T any](t *testing.T, c *client) T {
	t.Helper()
	select {
	case answer := <-c.answers:
		typed, ok := answer.(T)
		require.True(t, ok, "the answer is %T %+v", answer, answer)
		return typed
	case <-time.After(locktest.Patience):
		var zero T
		require.Fail(t, "no answer", "waiting for %T", zero)
		return zero
	}
}

func acquireMessage(p *locktest.Place, id uint64) *protocol.Acquire {
	return &protocol.Acquire{ID: id, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name}
}

func releaseMessage(p *locktest.Place, id, serial uint64) *protocol.Release {
	return &protocol.Release{ID: id, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name, Serial: serial}
}

func TestActorAPI_AcquireHandOverRelease(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		first, second := newActorClient(t, rt, p.Lock(rt)), newActorClient(t, rt, p.Lock(rt))
		first.ask(acquireMessage(p, 7))
		granted := answerOf[*protocol.Granted](t, first)
		assert.Equal(t, uint64(7), granted.ID)
		assert.Equal(t, p.Name, granted.Lock)
		assert.Contains(t, p.Fields(t), granted.LeaseID)
		assert.InDelta(t, 30, time.Until(granted.Until).Seconds(), 3)

		second.ask(*acquireMessage(p, 1)) // a value serves as well as a pointer
		p.WaitForWaiting(t, rt, 1)
		third, err := p.Lock(rt).TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.Nil(t, third)
		first.ask(releaseMessage(p, 8, granted.Serial))
		released := answerOf[*protocol.Released](t, first)
		require.NoError(t, released.Err)
		assert.Equal(t, uint64(8), released.ID)
		handed := answerOf[*protocol.Granted](t, second)
		assert.NotEqual(t, granted.Serial, handed.Serial, "serials name leases, not grants")

		first.ask(releaseMessage(p, 9, granted.Serial))
		stale := answerOf[*protocol.Released](t, first)
		require.ErrorIs(t, stale.Err, holdfast.ErrNotHeld)
		assert.True(t, p.Exists(t), "a stale release does not touch the next holder")
		second.ask(releaseMessage(p, 2, handed.Serial))
		require.NoError(t, answerOf[*protocol.Released](t, second).Err)
		locktest.Await(t, "the key to go", func() bool { return !p.Exists(t) })
	})
}

func TestActorAPI_Refusals(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		lease, err := p.Lock(other).Acquire(t.Context())
		require.NoError(t, err)
		c := newActorClient(t, rt, p.Lock(rt))
		refused := func(change func(*protocol.Acquire), want error) *protocol.Refused {
			t.Helper()
			m := acquireMessage(p, 3)
			change(m)
			c.ask(m)
			answer := answerOf[*protocol.Refused](t, c)
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

		c.ask(acquireMessage(p, 4))
		p.WaitForWaiting(t, rt, 1)
		c.ask(acquireMessage(p, 4))
		require.ErrorIs(t, answerOf[*protocol.Refused](t, c).Err, holdfast.ErrInvalid, "the ID is in use")
		c.ask(&protocol.Cancel{ID: 4, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name})
		assert.Equal(t, uint64(4), answerOf[*protocol.Refused](t, c).ID)
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestActorAPI_RenewAndInspect(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		c := newActorClient(t, rt, p.Lock(rt))
		renew := func(serial uint64, lease time.Duration) *protocol.Renewed {
			t.Helper()
			c.ask(&protocol.Renew{ID: 5, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name, Serial: serial, Lease: lease})
			return answerOf[*protocol.Renewed](t, c)
		}
		m := acquireMessage(p, 1)
		m.Lease = time.Minute
		c.ask(m)
		granted := answerOf[*protocol.Granted](t, c)
		renewed := renew(granted.Serial, 10*time.Minute)
		require.NoError(t, renewed.Err)
		assert.InDelta(t, 10, time.Until(renewed.Until).Minutes(), 0.5)
		require.ErrorIs(t, renew(granted.Serial, time.Millisecond).Err, holdfast.ErrInvalid)
		require.ErrorIs(t, renew(granted.Serial+1000, time.Minute).Err, holdfast.ErrNotHeld)

		c.ask(&protocol.Inspect{ID: 6, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name})
		inspected := answerOf[*protocol.Inspected](t, c)
		require.NoError(t, inspected.Err)
		assert.True(t, inspected.State.Held)
		assert.Equal(t, []holdfast.Holder{{ID: granted.LeaseID, Holds: 1}}, inspected.State.Holders)

		c.ask(releaseMessage(p, 2, granted.Serial))
		require.NoError(t, answerOf[*protocol.Released](t, c).Err)
		c.ask(acquireMessage(p, 1))
		watched := answerOf[*protocol.Granted](t, c)
		require.ErrorIs(t, renew(watched.Serial, time.Minute).Err, holdfast.ErrInvalid, "the watchdog renews this one")
		c.ask(releaseMessage(p, 2, watched.Serial))
		require.NoError(t, answerOf[*protocol.Released](t, c).Err)
	})
}

func TestActorAPI_LossIsTold(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{Lease: 300 * time.Millisecond})
		c := newActorClient(t, rt, p.Lock(rt))
		c.ask(acquireMessage(p, 1))
		granted := answerOf[*protocol.Granted](t, c)
		require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
		lost := answerOf[*protocol.Lost](t, c)
		assert.Equal(t, granted.Serial, lost.Serial)
		require.ErrorIs(t, lost.Err, holdfast.ErrLeaseLost)
	})
}

func TestActorAPI_TerminatedRequesterLeavesNothing(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		holder, waiter := newActorClient(t, rt, p.Lock(rt)), newActorClient(t, rt, p.Lock(rt))
		holder.ask(acquireMessage(p, 1))
		answerOf[*protocol.Granted](t, holder)
		waiter.ask(acquireMessage(p, 1))
		p.WaitForWaiting(t, rt, 1)
		waiter.end()
		locktest.Await(t, "the dead waiter to leave", func() bool {
			state, err := p.Lock(rt).Inspect(t.Context())
			return assert.NoError(t, err) && state.Waiting == 0
		})
		holder.end()
		locktest.Await(t, "the dead holder's lock to come free", func() bool { return !p.Exists(t) })
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
		for _, message := range []any{acquireMessage(p, 1), "not a message of the protocol"} {
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
			actor.WithDeadLetterThrottleInterval(time.Millisecond), // each interval is a goroutine
		)
		defer system.Shutdown()
		one := p.Runtime(t, holdfast.Options{System: system})
		two := p.Runtime(t, holdfast.Options{System: system})
		assert.Same(t, system, one.System())
		assert.NotEqual(t, one.ID(), two.ID())
		a, b := newActorClient(t, one, p.Lock(one)), newActorClient(t, two, p.Lock(two))
		a.ask(acquireMessage(p, 1))
		granted := answerOf[*protocol.Granted](t, a)
		b.ask(acquireMessage(p, 1))
		p.WaitForWaiter(t, two)
		require.NoError(t, one.Close(context.Background()))
		lost := answerOf[*protocol.Lost](t, a)
		assert.Equal(t, granted.Serial, lost.Serial)
		require.ErrorIs(t, lost.Err, holdfast.ErrClosed)
		handed := answerOf[*protocol.Granted](t, b)
		b.ask(releaseMessage(p, 2, handed.Serial))
		require.NoError(t, answerOf[*protocol.Released](t, b).Err, "the other runtime and the system live on")
	})
}
