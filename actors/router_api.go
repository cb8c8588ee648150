package actors

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// asked is a request of the actor message API as it came: nothing of it has been looked at.
type asked struct {
	*wait.Request
	kind protocol.Kind
	lock string
	most time.Duration // how long an acquire waits at most; 0: no bound
}

// onMessage takes the messages of the actor message API. Each is answered, or, where nobody could be told, reported.
func (r *router) onMessage(c actor.Context, message any) {
	q := understand(message)
	sender := c.Sender()
	switch {
	case q.Request == nil:
		r.engine.drop("", fmt.Sprintf("unknown message %T", message))
	case sender == nil:
		r.engine.drop(q.lock, fmt.Sprintf("%s without a sender to answer to: use Request, not Send", q.Do))
	case !r.engine.isLocal(sender):
		r.engine.drop(q.lock, fmt.Sprintf("%s by %s/%s, which is no actor of this system: answers would not arrive",
			q.Do, sender.Address, sender.Id))
	default:
		q.Requester = sender
		r.onAsked(c, q)
	}
}

// onAsked checks a request and serves it, or has the right router serve it: users may send to the PID of any lock.
func (r *router) onAsked(c actor.Context, q asked) {
	err := r.engine.resolve(q)
	switch {
	case err != nil && q.Do == wait.Cancel: // its ID is that of an acquire, which has an answer of its own
		r.engine.drop(q.lock, fmt.Sprintf("cancel: %v", err))
	case err != nil:
		q.Err = q.Because(err)
		r.engine.answer(q.Request)
	case !r.engine.Router(q.Address).Equal(c.Self()):
		c.Forward(r.engine.Router(q.Address))
	case q.Do == wait.Cancel:
		r.route(c, cancelByID{address: q.Address, requester: q.Requester, id: q.ID})
	default:
		r.setTimer(c, q)
		r.route(c, q.Request)
	}
}

// setTimer ends the waiting of an acquire that waits only for so long.
func (r *router) setTimer(c actor.Context, q asked) {
	if q.most <= 0 {
		return
	}
	root, self, gone := r.engine.root, c.Self(), wait.CancelRequest{Request: q.Request, Cause: protocol.ErrNotAcquired}
	q.Timer = r.engine.clock.AfterFunc(q.most, func() { root.Send(self, gone) })
}

// understand takes a message apart; without a Request it is none of the API. Pointers serve as well as values.
func understand(message any) asked {
	switch m := message.(type) {
	case *protocol.Acquire:
		if m != nil {
			return understand(*m)
		}
	case *protocol.Cancel:
		if m != nil {
			return understand(*m)
		}
	case *protocol.Release:
		if m != nil {
			return understand(*m)
		}
	case *protocol.Renew:
		if m != nil {
			return understand(*m)
		}
	case *protocol.Inspect:
		if m != nil {
			return understand(*m)
		}
	case protocol.Acquire:
		q := &wait.Request{
			Do: wait.Acquire, ID: m.ID, Owner: m.Owner, Lease: m.Lease, Try: m.Try, Backoff: m.Backoff, Bounded: m.Wait > 0, Hold: &lease.Hold{},
		}
		return asked{q, m.Kind, m.Lock, m.Wait}
	case protocol.Cancel:
		return asked{&wait.Request{Do: wait.Cancel, ID: m.ID}, m.Kind, m.Lock, 0}
	case protocol.Release:
		return asked{&wait.Request{Do: wait.Release, ID: m.ID, Serial: m.Serial}, m.Kind, m.Lock, 0}
	case protocol.Renew:
		return asked{&wait.Request{Do: wait.Extend, ID: m.ID, Serial: m.Serial, Lease: m.Lease}, m.Kind, m.Lock, 0}
	case protocol.Inspect:
		return asked{&wait.Request{Do: wait.Inspect, ID: m.ID}, m.Kind, m.Lock, 0}
	}
	return asked{}
}

// nowhere is the address of a request before it is known whether there is such a lock: answers name it as it was asked for.
func (q asked) nowhere() *lease.Address {
	return &lease.Address{Kind: &scripts.Kind{Name: q.kind}, Name: q.lock}
}

// resolve finds the lock that a request is about, and says what is wrong with the request.
func (e *Engine) resolve(q asked) error {
	kind, known := scripts.KindOf(q.kind)
	if !known {
		q.Address = q.nowhere()
		return fmt.Errorf("%w: unknown kind %s", protocol.ErrInvalid, wait.Quoted(string(q.kind)))
	}
	address, err := e.addressApart(kind, q.lock)
	if q.Address = &address; err != nil {
		return err
	}
	switch q.Do {
	case wait.Acquire:
		if e.isFuture(q.Requester.(*actor.PID)) {
			return fmt.Errorf("%w: a future cannot wait for a lock, because being watched completes it: ask as an actor", protocol.ErrInvalid)
		}
		spec := AcquireSpec{Owner: q.Owner, Lease: q.Lease, Wait: q.most, Try: q.Try, Backoff: q.Backoff}
		err = e.Check(kind, &spec)
		q.Backoff = spec.Backoff
		return err
	case wait.Extend:
		return lease.Check(q.Lease)
	}
	return nil
}

// isLocal reports whether a PID is of this actor system. The messages of protocol do not travel to others.
func (e *Engine) isLocal(pid *actor.PID) bool {
	return pid.Address == e.system.Address() || pid.Address == "nonhost" // what protoactor calls a system without a remote
}

// isFuture recognizes a protoactor future by the name that it has there: an actor cannot have it, short of asking for it.
func (e *Engine) isFuture(pid *actor.PID) bool {
	if !strings.HasPrefix(pid.Id, "future$") {
		return false
	}
	process, _ := e.system.ProcessRegistry.GetLocal(pid.Id)
	_, isActor := process.(*actor.ActorProcess)
	return !isActor
}

// lives reports whether an actor of this system has this name now.
func (e *Engine) lives(pid *actor.PID) bool {
	_, there := e.system.ProcessRegistry.GetLocal(pid.Id)
	return there
}

func (e *Engine) checkAcquire(owner protocol.Owner, length, wait time.Duration, try bool) error {
	switch {
	case !owner.IsZero() && owner.Runtime() != e.id:
		return fmt.Errorf("%w: owner %v is of another runtime", protocol.ErrInvalid, owner)
	case wait < 0:
		return fmt.Errorf("%w: wait %v is negative", protocol.ErrInvalid, wait)
	case wait > 0 && try:
		return fmt.Errorf("%w: a try does not wait", protocol.ErrInvalid)
	case length != 0:
		return lease.Check(length)
	}
	return nil
}
