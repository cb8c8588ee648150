package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/api"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
)

// onMessage takes the messages of users' actors. They may send to the PID of any lock, so a request may belong to another router.
func (r *router) onMessage(c actor.Context, message any) {
	q, ok := r.engine.api.Read(message, c.Sender())
	switch {
	case !ok:
	case !r.engine.Router(q.Address).Equal(c.Self()):
		c.Forward(r.engine.Router(q.Address))
	case q.Do == wait.Cancel:
		r.route(c, cancelByID{address: q.Address, requester: q.Requester, id: q.ID})
	default:
		r.setTimer(c, q)
		r.route(c, q.Request)
	}
}

// setTimer ends the waiting of an acquire that has a bound.
func (r *router) setTimer(c actor.Context, q api.Asked) {
	if q.Wait <= 0 {
		return
	}
	root, self, gone := r.engine.root, c.Self(), wait.CancelRequest{Request: q.Request, Cause: protocol.ErrNotAcquired}
	q.Timer = r.engine.clock.AfterFunc(q.Wait, func() { root.Send(self, gone) })
}
