package api

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
)

// Answer sends the answer to a request to the actor that made it.
func (a API) Answer(r *wait.Request) {
	r.StopTimer()
	a.Outbox.Post(r.Requester.(*actor.PID), outbox.Message{Lock: r.Address.Name, Content: a.message(r)})
}

func (a API) message(r *wait.Request) any {
	kind, name := r.Address.Kind.Name, r.Address.Name
	switch r.Do {
	case wait.Release:
		return &protocol.Released{ID: r.ID, Kind: kind, Lock: name, Serial: r.Serial, Err: r.Err}
	case wait.Extend:
		m := &protocol.Renewed{ID: r.ID, Kind: kind, Lock: name, Serial: r.Serial, Err: r.Err}
		if r.Err == nil {
			m.Until = a.Time(r.Until)
		}
		return m
	case wait.Inspect:
		answer := &protocol.Inspected{ID: r.ID, Kind: kind, Lock: name, Err: r.Err}
		if r.State != nil {
			answer.State = *r.State
		}
		return answer
	}
	if r.Err != nil {
		return &protocol.Refused{ID: r.ID, Kind: kind, Lock: name, Err: r.Err}
	}
	hold := r.Hold
	return &protocol.Granted{
		ID: r.ID, Kind: kind, Lock: name, Serial: hold.Serial, LeaseID: hold.Grant.ID, Token: hold.Token, Until: a.Time(hold.Until()),
		Valid: func() bool { return hold.Valid(a.Now()) },
	}
}
