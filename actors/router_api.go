package actors

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// asked is a request of the actor message API as it came: nothing of it has been looked at.
type asked struct {
	*Request
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
		r.engine.drop(q.lock, fmt.Sprintf("%s without a sender to answer to: use Request, not Send", q.do))
	case !r.engine.isLocal(sender):
		r.engine.drop(q.lock, fmt.Sprintf("%s by %s/%s, which is no actor of this system: answers would not arrive",
			q.do, sender.Address, sender.Id))
	default:
		q.requester = sender
		r.onAsked(c, q)
	}
}

// onAsked checks a request and serves it, or has the right router serve it: users may send to the PID of any lock.
func (r *router) onAsked(c actor.Context, q asked) {
	err := r.engine.resolve(q)
	switch {
	case err != nil && q.do == opCancel: // its ID is that of an acquire, which has an answer of its own
		r.engine.drop(q.lock, fmt.Sprintf("cancel: %v", err))
	case err != nil:
		q.err = q.because(err)
		r.engine.answer(q.Request)
	case !r.engine.Router(q.address).Equal(c.Self()):
		c.Forward(r.engine.Router(q.address))
	case q.do == opCancel:
		r.route(c, cancelByID{address: q.address, requester: q.requester, id: q.id})
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
	root, self, gone := r.engine.root, c.Self(), cancelRequest{request: q.Request, cause: protocol.ErrNotAcquired}
	q.wait = r.engine.clock.AfterFunc(q.most, func() { root.Send(self, gone) })
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
		q := &Request{
			do: opAcquire, id: m.ID, owner: m.Owner, lease: m.Lease, try: m.Try, backoff: m.Backoff, bounded: m.Wait > 0, hold: &lease.Hold{},
		}
		return asked{q, m.Kind, m.Lock, m.Wait}
	case protocol.Cancel:
		return asked{&Request{do: opCancel, id: m.ID}, m.Kind, m.Lock, 0}
	case protocol.Release:
		return asked{&Request{do: opRelease, id: m.ID, serial: m.Serial}, m.Kind, m.Lock, 0}
	case protocol.Renew:
		return asked{&Request{do: opExtend, id: m.ID, serial: m.Serial, lease: m.Lease}, m.Kind, m.Lock, 0}
	case protocol.Inspect:
		return asked{&Request{do: opInspect, id: m.ID}, m.Kind, m.Lock, 0}
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
		q.address = q.nowhere()
		return fmt.Errorf("%w: unknown kind %s", protocol.ErrInvalid, Quoted(string(q.kind)))
	}
	address, err := e.addressApart(kind, q.lock)
	if q.address = &address; err != nil {
		return err
	}
	switch q.do {
	case opAcquire:
		if e.isFuture(q.requester.(*actor.PID)) {
			return fmt.Errorf("%w: a future cannot wait for a lock, because being watched completes it: ask as an actor", protocol.ErrInvalid)
		}
		spec := AcquireSpec{Owner: q.owner, Lease: q.lease, Wait: q.most, Try: q.try, Backoff: q.backoff}
		err = e.Check(kind, &spec)
		q.backoff = spec.Backoff
		return err
	case opExtend:
		return lease.Check(q.lease)
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
