package actors

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/api"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// front is the actor to which users' actors send their messages about locks. It turns each message into a request for the registry. There are
// several fronts, chosen by a hash of the lock's name, so that they can use several cores.
type front struct {
	engine  *Engine
	stopped bool // protoactor has stopped this front; the porter turns messages away
}

const frontCount = 16

// cancelByID cancels an acquire that an actor of the user has sent. The field id is the number that the user's actor gave the acquire. One actor of
// the engine serves both the readers and the writers of a name, so the field kind says which of the two kinds the acquire has.
type cancelByID struct {
	requester lease.Ref
	id        uint64
	kind      *scripts.Kind
}

// Front returns the PID for messages about a lock. It is valid as long as the engine is.
func (e *Engine) Front(a *lease.Address) *actor.PID { return e.fronts[e.shard(a.Raw)%frontCount] }

// Receive is the actor's only entry.
func (f *front) Receive(c actor.Context) {
	defer f.engine.events.RecoverIn("front")
	switch m := c.Message().(type) {
	case wait.CancelRequest: // from the timer (setTimer), through the front, so that a cancel cannot overtake its request
		f.engine.registry.tell(m.Request.Address, m)
	case *actor.Stopped:
		f.stopped = true
	case *actor.Started, *actor.Stopping, *actor.Restarting:
	default:
		f.onMessage(c, m)
	}
}

// onMessage handles the messages of users' actors. A user's actor may send a message to a front that is not the lock's own. onMessage forwards such a
// message to the lock's own front. So all messages about a lock pass through one front, and a cancel cannot overtake its acquire.
func (f *front) onMessage(c actor.Context, message any) {
	q, ok := f.engine.api.Read(message, c.Sender())
	switch {
	case !ok:
	case !f.engine.Front(q.Address).Equal(c.Self()):
		c.Forward(f.engine.Front(q.Address))
	case q.Do == wait.Cancel:
		f.engine.registry.tell(q.Address, cancelByID{requester: q.Requester, id: q.ID, kind: q.Address.Kind})
	default:
		f.engine.asks(context.Background(), q.Request)
		f.setTimer(c, q)
		f.engine.registry.request(q.Request)
	}
}

// setTimer sets the timer that ends an acquire whose wait is limited.
func (f *front) setTimer(c actor.Context, q api.Asked) {
	if q.Wait <= 0 {
		return
	}
	root, self, gone := f.engine.root, c.Self(), wait.CancelRequest{Request: q.Request, Cause: protocol.ErrNotAcquired}
	q.Timer = f.engine.clock.AfterFunc(q.Wait, func() { root.Send(self, gone) })
}
