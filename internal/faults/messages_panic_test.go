package faults_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

// panicOn makes an actor panic when it handles a message of type M. The actor panics at most the given number of times.
func panicOn[M any](times int32) func(actor.Context) {
	var left atomic.Int32
	left.Store(times)
	return func(c actor.Context) {
		if _, ok := c.Message().(M); ok && left.Add(-1) >= 0 {
			panic("in Receive")
		}
	}
}

// An actor that panics on its grant is restarted by protoactor, under the same PID. It has not terminated, so it keeps the lock. keeper shows how
// such an actor can release its lease.
func TestFault_RequesterPanicsOverItsGrantAndIsRestarted(t *testing.T) {
	t.Parallel()
	eachSort(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{Lease: shortLease})
		a := locktest.ActorThat(t, rt, p.Lock(rt), panicOn[*protocol.Granted](1))
		a.Ask(p.AcquireMessage(1))
		locktest.Await(t, "the grant", func() bool { return p.Exists(t) })
		renewed(t, p, nil)
		assert.Empty(t, a.Answers, "the grant is delivered once")

		waiting := locktest.NewActor(t, rt, p.Lock(rt))
		waiting.Ask(p.AcquireMessage(1))
		p.WaitForWaiting(t, rt, 1)
		a.Stop()
		granted := locktest.Answer[*protocol.Granted](t, waiting)
		waiting.Ask(p.ReleaseMessage(2, granted.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, waiting).Err)
	})
}

// keeper shows what an actor that may be restarted can do: store the serial before anything else, and release on Restarting.
type keeper struct {
	place  *locktest.Place
	lock   *holdfast.Lock
	held   *protocol.Granted
	events chan string
}

type work struct{}

func (k *keeper) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		k.events <- "started"
		c.Request(k.lock.PID(), k.place.AcquireMessage(1))
	case *protocol.Granted:
		k.held = m
		k.events <- "granted"
	case work:
		panic("at work")
	case *actor.Restarting:
		if k.held != nil {
			c.Request(k.lock.PID(), &protocol.Release{ID: 2, Kind: k.held.Kind, Lock: k.held.Lock, Serial: k.held.Serial})
		}
	case *protocol.Released:
		k.events <- "released"
	}
}

func TestFault_RequesterReleasesWhenItIsRestarted(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{Lease: longLease})
		events := make(chan string, 100)
		pid := rt.System().Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &keeper{place: p, lock: p.Lock(rt), events: events} }))
		next := func(want string) {
			t.Helper()
			select {
			case event := <-events:
				require.Equal(t, want, event)
			case <-time.After(locktest.Patience):
				require.Fail(t, "waiting for "+want)
			}
		}
		next("started")
		next("granted")
		for range 5 {
			rt.System().Root.Send(pid, work{})
			next("started")
			next("released")
			next("granted")
		}
		require.NoError(t, rt.System().Root.StopFuture(pid).Wait())
		locktest.Await(t, "the key to go", func() bool { return !p.Exists(t) })
	})
}

// protoactor's supervisor stops an actor that panics again and again. That ends its leases.
func TestFault_RequesterPanicsOverItsGrantAndIsStopped(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{Lease: longLease})
		for name, options := range map[string][]actor.PropsOption{
			"at once":        {actor.WithGuardian(stopping)},
			"after 10 times": nil,
		} {
			a := locktest.ActorThat(t, rt, p.Lock(rt), panicOn[*protocol.Granted](1000), options...)
			owner := rt.NewOwner()
			for id := range uint64(12) {
				again := p.AcquireMessage(id)
				again.Owner = owner // so that all requests are granted
				a.Ask(again)
			}
			locktest.Await(t, "the end, "+name, func() bool {
				_, there := rt.System().ProcessRegistry.GetLocal(a.PID.Id)
				return !there
			})
			locktest.Await(t, "the key to go, "+name, func() bool { return !p.Exists(t) })
			locktest.Release(t, locktest.Acquire(t, p.Lock(rt)))
		}
	})
}

// An actor that panics on a Lost does not get it again, and may acquire again.
func TestFault_RequesterPanicsOverItsLoss(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{Lease: shortLease})
		kept := locktest.Acquire(t, p.Another(t).Lock(rt))
		a := locktest.ActorThat(t, rt, p.Lock(rt), panicOn[*protocol.Lost](1))
		for range 2 {
			p.Hold(t, a, 1)
			held, err := p.Lock(rt).ForceRelease(t.Context())
			require.NoError(t, err)
			require.True(t, held)
		}
		locktest.Answer[*protocol.Lost](t, a) // the Lost of the second round: the actor panicked on the Lost of the first round
		granted := p.Hold(t, a, 2)
		a.Ask(p.ReleaseMessage(3, granted.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, a).Err)
		assert.True(t, kept.Valid(), "others are renewed")
	})
}

// A NameMapper ends the goroutine that calls it, as t.FailNow does. The message that caused this call is refused. No other message is affected, and
// the front actor continues.
func TestFault_NameMapperEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		bad := p.Name + "-bad"
		rt := p.Runtime(t, holdfast.Options{NameMapper: func(name string) string {
			if name == bad {
				runtime.Goexit()
			}
			return name
		}})
		a := locktest.NewActor(t, rt, p.Lock(rt))
		for id := range uint64(50) { // each would end a goroutine that handles messages
			ask := p.AcquireMessage(2 * id)
			ask.Lock = bad
			a.Ask(ask)
			refused := locktest.Answer[*protocol.Refused](t, a)
			assert.ErrorIs(t, refused.Err, holdfast.ErrInvalid)
			assert.Equal(t, bad, refused.Lock)
			granted := p.Hold(t, a, 2*id+1)
			a.Ask(p.ReleaseMessage(2*id+1, granted.Serial))
			require.NoError(t, locktest.Answer[*protocol.Released](t, a).Err)
		}
	})
}
