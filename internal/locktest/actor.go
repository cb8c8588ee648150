package locktest

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/protocol"
)

// Actor is a user's actor. It sends the messages that a test gives it, and passes every answer on to the test.
type Actor struct {
	PID     *actor.PID
	Lock    *holdfast.Lock // the lock that it sends to
	Answers chan any

	root *actor.RootContext
	then func(actor.Context) // called with every message before anything else; may be nil
}

// Ask makes an Actor send this message.
type Ask struct{ Message any }

// NewActor spawns an actor in the runtime's system. The actor is stopped when the test ends.
func NewActor(t *testing.T, rt *holdfast.Runtime, lock *holdfast.Lock, options ...actor.PropsOption) *Actor {
	return ActorThat(t, rt, lock, nil, options...)
}

// ActorThat is NewActor, with a function that the actor calls with every message before anything else.
func ActorThat(t *testing.T, rt *holdfast.Runtime, lock *holdfast.Lock, do func(actor.Context), options ...actor.PropsOption) *Actor {
	a := &Actor{Lock: lock, Answers: make(chan any, 1000), root: rt.System().Root, then: do}
	a.PID = a.root.Spawn(actor.PropsFromFunc(a.receive, options...))
	atEnd(t, a, (*Actor).Stop)
	return a
}

func (a *Actor) receive(c actor.Context) {
	if a.then != nil {
		a.then(c)
	}
	switch m := c.Message().(type) {
	case Ask:
		c.Request(a.Lock.PID(), m.Message)
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Restarting:
	default:
		a.Answers <- m
	}
}

// Ask has the actor send a message to its lock.
func (a *Actor) Ask(message any) { a.root.Send(a.PID, Ask{message}) }

// Stop stops the actor and waits until it has stopped.
func (a *Actor) Stop() { _ = a.root.StopFuture(a.PID).Wait() }

// Poison stops the actor after it has handled the messages received so far, and waits until it has stopped.
func (a *Actor) Poison() { _ = a.root.PoisonFuture(a.PID).Wait() }

// Answer returns the actor's next answer, which must be a T.
func Answer[T any](t *testing.T, a *Actor) T {
	t.Helper()
	return Next[T](t, a.Answers)
}

// Next waits for the next message, which must be a T.
func Next[T any](t *testing.T, messages chan any) T {
	t.Helper()
	select {
	case message := <-messages:
		typed, ok := message.(T)
		require.True(t, ok, "the message is %T %+v", message, message)
		return typed
	case <-time.After(Patience):
		var zero T
		require.Fail(t, "no message", "waiting for %T", zero)
		return zero
	}
}

// AcquireMessage returns a message that acquires the place's lock.
func (p *Place) AcquireMessage(id uint64) *protocol.Acquire {
	return &protocol.Acquire{ID: id, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name}
}

// ReleaseMessage returns a message that releases a lease on the place's lock.
func (p *Place) ReleaseMessage(id, serial uint64) *protocol.Release {
	return &protocol.Release{ID: id, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name, Serial: serial}
}

// Hold has an actor acquire the place's lock.
func (p *Place) Hold(t *testing.T, a *Actor, id uint64) *protocol.Granted {
	t.Helper()
	a.Ask(p.AcquireMessage(id))
	return Answer[*protocol.Granted](t, a)
}
