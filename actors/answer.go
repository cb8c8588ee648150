package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/protocol"
)

// answer delivers a request's answer to whoever asked. The request belongs to its requester from then on.
func (e *Engine) answer(r *Request) {
	switch {
	case r.requester != nil:
		r.stopTimer()
		e.outbox.Post(r.requester.(*actor.PID), outbox.Message{Lock: r.address.Name, Content: e.message(r)})
	case r.notify != nil:
		r.notify(r)
	default:
		r.answered <- struct{}{}
	}
}

// message is the answer to an actor.
func (e *Engine) message(r *Request) any {
	kind, name := r.address.Kind.Name, r.address.Name
	switch r.do {
	case opRelease:
		return &protocol.Released{ID: r.id, Kind: kind, Lock: name, Serial: r.serial, Err: r.err}
	case opExtend:
		m := &protocol.Renewed{ID: r.id, Kind: kind, Lock: name, Serial: r.serial, Err: r.err}
		if r.err == nil {
			m.Until = e.Time(r.until)
		}
		return m
	case opInspect:
		return &protocol.Inspected{ID: r.id, Kind: kind, Lock: name, State: r.state, Err: r.err}
	}
	if r.err != nil {
		return &protocol.Refused{ID: r.id, Kind: kind, Lock: name, Err: r.err}
	}
	hold := r.hold
	return &protocol.Granted{
		ID: r.id, Kind: kind, Lock: name, Serial: hold.Serial, LeaseID: hold.ID(), Token: hold.Token, Until: e.Time(hold.Until()),
		Valid: func() bool { return hold.Valid(e.clock.Now()) },
	}
}
