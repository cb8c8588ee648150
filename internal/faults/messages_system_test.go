package faults_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

// strict is a supervisor that stops every actor that fails, and reports it.
type strict struct{ failed chan *actor.PID }

func (s strict) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, _, _ any) {
	s.failed <- child
	supervisor.StopChildren(child)
}

// The middleware, supervisor and headers of a user's actor system apply only to the user's actors. The runtime's actors bypass them,
// because middleware that panics would interrupt a step of a lock's actor.
func TestFault_SystemOfTheUser(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "lock")
	system, supervisor := newSystem(t), strict{make(chan *actor.PID, 10)}
	mine := system.Root.Copy() // copied before the middleware is added, for the test's own actors
	refuse := func(next actor.SenderFunc) actor.SenderFunc {
		return func(actor.SenderContext, *actor.PID, *actor.MessageEnvelope) { panic("of the middleware") }
	}
	system.Root.WithSenderMiddleware(refuse).WithGuardian(supervisor).WithHeaders(map[string]string{"a": "b"}).
		WithSpawnMiddleware(func(actor.SpawnFunc) actor.SpawnFunc {
			return func(*actor.ActorSystem, string, *actor.Props, actor.SpawnerContext) (*actor.PID, error) {
				panic("of the spawner")
			}
		})
	var events locktest.Recorder
	rt := p.Runtime(t, holdfast.Options{System: system, OnEvent: events.Record, Lease: shortLease})

	q := p.Another(t)
	kept := locktest.Acquire(t, q.Lock(rt))
	pid := mine.Spawn(actor.PropsFromProducer(func() actor.Actor { return &asker{place: p, lock: p.Lock(rt)} }))
	mine.Send(pid, askAll{})
	locktest.Await(t, "the grant", func() bool { return p.Exists(t) })
	renewed(t, q, kept.Valid)
	mine.Stop(pid)
	locktest.Await(t, "the key to go", func() bool { return !p.Exists(t) })
	locktest.Release(t, kept)
	require.NoError(t, rt.Close(t.Context()))
	assert.Empty(t, supervisor.failed)
	assert.Empty(t, locktest.Recorded[holdfast.ActorPanicked](&events))
}

// A user may shut down the actor system in which the runtime lives. The runtime still releases its locks on Close, because Shutdown stops no actor.
func TestFault_SystemOfTheUserIsShutDownFirst(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		system := actor.NewActorSystemWithConfig(newSystem(t).Config)
		rt := p.Runtime(t, holdfast.Options{System: system})
		a := locktest.NewActor(t, rt, p.Lock(rt))
		p.Hold(t, a, 1)
		system.Shutdown()
		lease := locktest.Acquire(t, p.Another(t).Lock(rt))
		require.NoError(t, rt.Close(t.Context()))
		assert.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
		require.ErrorIs(t, locktest.Answer[*protocol.Lost](t, a).Err, holdfast.ErrClosed)
		assert.False(t, p.Exists(t))
	})
}
