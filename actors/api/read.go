package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Config is what the API needs from its runtime.
type Config struct {
	System  *actor.ActorSystem
	Events  *outbox.Events
	Outbox  *outbox.Outbox
	Runtime string                                                       // the runtime's UUID
	Address func(kind *scripts.Kind, name string) (lease.Address, error) // called by fronts, so it returns even if a NameMapper calls runtime.Goexit
	Time    func(instant time.Duration) time.Time                        // converts an instant of the clock to wall-clock time
	Now     func() time.Duration                                         // the present instant
}

// API reads requests and sends answers. It has no state, so any actor may use it.
type API struct{ Config }

// Asked is a request of a user's actor.
type Asked struct {
	*wait.Request
	Wait time.Duration // the longest wait of an acquire, or 0 for no limit
	kind protocol.Kind
	lock string
}

// Read turns a message into a request. If the request is invalid, Read answers it and returns false. If the message cannot be answered, Read reports
// it as dropped and returns false.
func (a API) Read(message any, sender *actor.PID) (q Asked, ok bool) {
	q = parse(message)
	switch {
	case q.Request == nil:
		a.Drop("", fmt.Sprintf("unknown message %T", message))
		return q, false
	case sender == nil:
		a.Drop(q.lock, fmt.Sprintf("%s without a sender to answer to: use Request, not Send", q.Do))
		return q, false
	case !a.isLocal(sender):
		a.Drop(q.lock, fmt.Sprintf("%s by %s/%s, which is no actor of this system: answers would not arrive",
			q.Do, sender.Address, sender.Id))
		return q, false
	}
	q.Requester = sender
	err := a.resolve(q)
	switch {
	case err == nil:
	case q.Do == wait.Cancel: // a cancel has no answer of its own: its ID is the ID of an acquire, and only the acquire is answered
		a.Drop(q.lock, fmt.Sprintf("cancel: %v", err))
	default:
		q.Err = q.Because(err)
		a.Answer(q.Request)
	}
	return q, err == nil
}

// TurnAway answers a message with ErrClosed, because the front actor that received the message has stopped.
func (a API) TurnAway(message any, sender *actor.PID) {
	q := parse(message)
	if q.Request == nil || q.Do == wait.Cancel || sender == nil || !a.isLocal(sender) {
		return
	}
	q.Requester, q.Address = sender, q.unresolved()
	q.Err = q.Because(protocol.ErrClosed)
	a.Answer(q.Request)
}

// Drop reports a message that cannot be answered.
func (a API) Drop(lock, reason string) {
	a.Events.Emit(protocol.RequestDropped{Name: lease.Shorten(lock), Reason: reason})
}

// parse turns a message of package protocol into an Asked. The Asked has no Request if the message does not belong to the API. Users may send
// pointers as well as values.
func parse(message any) Asked {
	switch m := message.(type) {
	case *protocol.Acquire:
		if m != nil {
			return parse(*m)
		}
	case *protocol.Cancel:
		if m != nil {
			return parse(*m)
		}
	case *protocol.Release:
		if m != nil {
			return parse(*m)
		}
	case *protocol.Renew:
		if m != nil {
			return parse(*m)
		}
	case *protocol.Inspect:
		if m != nil {
			return parse(*m)
		}
	case protocol.Acquire:
		q := &wait.Request{
			Do: wait.Acquire, ID: m.ID, Owner: m.Owner, Terms: wait.Terms{Lease: m.Lease}, Try: m.Try, Backoff: m.Backoff, Hold: &lease.Hold{},
		}
		return Asked{q, m.Wait, m.Kind, m.Lock}
	case protocol.Cancel:
		return Asked{&wait.Request{Do: wait.Cancel, ID: m.ID}, 0, m.Kind, m.Lock}
	case protocol.Release:
		return Asked{&wait.Request{Do: wait.Release, ID: m.ID, Serial: m.Serial}, 0, m.Kind, m.Lock}
	case protocol.Renew:
		return Asked{&wait.Request{Do: wait.Extend, ID: m.ID, Serial: m.Serial, Terms: wait.Terms{Lease: m.Lease}}, 0, m.Kind, m.Lock}
	case protocol.Inspect:
		return Asked{&wait.Request{Do: wait.Inspect, ID: m.ID}, 0, m.Kind, m.Lock}
	}
	return Asked{}
}

// unresolved makes an address from the kind and the name in a request. This address is used in the answer to a request that cannot be resolved.
func (q Asked) unresolved() *lease.Address {
	return &lease.Address{Kind: &scripts.Kind{Name: q.kind}, Name: q.lock}
}

// resolve finds the lock that a request is about. It returns an error if the request is invalid.
func (a API) resolve(q Asked) error {
	kind, known := scripts.KindOf(q.kind)
	if !known {
		q.Address = q.unresolved()
		return fmt.Errorf("%w: unknown kind %s", protocol.ErrInvalid, lease.Quoted(string(q.kind)))
	}
	address, err := a.Address(kind, q.lock)
	if q.Address = &address; err != nil {
		return err
	}
	switch q.Do {
	case wait.Acquire:
		if a.isFuture(q.Requester.(*actor.PID)) {
			return fmt.Errorf("%w: a future cannot wait for a lock, because being watched completes it: ask as an actor", protocol.ErrInvalid)
		}
		spec := wait.AcquireSpec{Terms: q.Terms, Owner: q.Owner, Wait: q.Wait, Try: q.Try, Backoff: q.Backoff}
		err = spec.Check(kind, a.Runtime)
		q.Backoff = spec.Backoff
		return err
	case wait.Extend:
		return lease.Check("lease", q.Lease)
	}
	return nil
}

// isLocal reports whether a PID belongs to this actor system. Requests from other systems are refused, because the messages of package protocol
// cannot be sent over a network.
func (a API) isLocal(pid *actor.PID) bool {
	return pid.Address == a.System.Address() || pid.Address == "nonhost" // what protoactor calls a system without a remote
}

// isFuture recognizes a future of protoactor by its name. A user may have given an actor such a name, so isFuture also checks that the process
// behind the name is not an actor.
func (a API) isFuture(pid *actor.PID) bool {
	if !strings.HasPrefix(pid.Id, "future$") {
		return false
	}
	process, _ := a.System.ProcessRegistry.GetLocal(pid.Id)
	_, isActor := process.(*actor.ActorProcess)
	return !isActor
}
