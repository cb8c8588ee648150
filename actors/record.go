package actors

import (
	"context"

	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// asks notes a request before it is sent, if it is an acquire.
func (e *Engine) asks(ctx context.Context, r *wait.Request) {
	if acquires(r) {
		r.Span = e.recorder.Asked(ctx, trace.Acquiring{Kind: r.Address.Kind.Name, Name: r.Address.Name, Try: r.Try})
	}
}

func acquires(r *wait.Request) bool {
	return r.Do == wait.Acquire || r.Do == wait.Count && r.Count.Way == scripts.Take
}

// TellLeader tells the user's Trace of a term.
func (e *Engine) TellLeader(c trace.LeaderChange) { e.recorder.Leader(c) }

// ends notes the answer to a request, just before its requester learns of it.
func (e *Engine) ends(r *wait.Request) {
	switch {
	case acquires(r):
		a := trace.Acquired{
			Kind: r.Address.Kind.Name, Name: r.Address.Name, Attempts: r.Attempts, Local: r.Attempts == 0 && r.Err == nil, Err: r.Err,
		}
		leased := r.Hold != nil && r.Err == nil
		if leased {
			a.ID, a.Token = r.Hold.ID(), r.Hold.Token
		}
		e.recorder.Outcome(r.Span, a, leased)
	case r.Do == wait.Release && r.Hold != nil:
		e.recorder.Released(r.Hold, r.Err)
	}
}
