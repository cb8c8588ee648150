package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
)

// answer delivers a request's answer to whoever asked. The request belongs to its requester from then on.
func (e *Engine) answer(r *wait.Request) {
	switch {
	case r.Requester != nil:
		r.StopTimer()
		e.outbox.Post(r.Requester.(*actor.PID), outbox.Message{Lock: r.Address.Name, Content: e.message(r)})
	case r.Notify != nil:
		r.Notify(r)
	default:
		r.Answered <- struct{}{}
	}
}

// message is the answer to an actor.
func (e *Engine) message(r *wait.Request) any {
	kind, name := r.Address.Kind.Name, r.Address.Name
	switch r.Do {
	case wait.Release:
		return &protocol.Released{ID: r.ID, Kind: kind, Lock: name, Serial: r.Serial, Err: r.Err}
	case wait.Extend:
		m := &protocol.Renewed{ID: r.ID, Kind: kind, Lock: name, Serial: r.Serial, Err: r.Err}
		if r.Err == nil {
			m.Until = e.Time(r.Until)
		}
		return m
	case wait.Inspect:
		return &protocol.Inspected{ID: r.ID, Kind: kind, Lock: name, State: r.State, Err: r.Err}
	}
	if r.Err != nil {
		return &protocol.Refused{ID: r.ID, Kind: kind, Lock: name, Err: r.Err}
	}
	hold := r.Hold
	return &protocol.Granted{
		ID: r.ID, Kind: kind, Lock: name, Serial: hold.Serial, LeaseID: hold.ID(), Token: hold.Token, Until: e.Time(hold.Until()),
		Valid: func() bool { return hold.Valid(e.clock.Now()) },
	}
}
