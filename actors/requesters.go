package actors

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
)

// This file is the shell's part of the actor message API: the waits and leases of a user's actor end when that actor terminates.

// admit prepares a request of an actor for the machine. For an acquire, admit adds the actor to the list of requesters. If the actor was not in the
// list before, admit also begins to watch it. For a release or an extend, admit finds the lease by the serial number in the request. If the request
// cannot be served, admit answers it and returns false.
func (a *shell) admit(c actor.Context, r *wait.Request) bool {
	switch r.Do {
	case wait.Acquire:
		first, err := a.requesters.Admit(r)
		if err != nil {
			r.Err = r.Because(err)
			a.engine.answer(r)
			return false
		}
		if first {
			a.tell(r.Requester, &actor.Watch{Watcher: c.Self()}, true)
		}
	case wait.Release, wait.Extend:
		r.Hold = a.requesters.Hold(r)
		if r.Hold == nil || r.Do == wait.Release && !r.Hold.Claim() {
			r.Err = r.Because(protocol.ErrNotHeld)
			r.Hold = nil // another request is ending it
			a.engine.answer(r)
			return false
		}
	}
	return true
}

// answered notes that an actor's request is being answered. If the actor then neither waits nor holds a lease, answered stops watching it.
func (a *shell) answered(c actor.Context, r *wait.Request) {
	a.unwatch(c, a.requesters.Answered(r))
}

// lost reports the end of a lease, and tells the actor that holds it.
func (a *shell) lost(c actor.Context, h *lease.Hold) {
	a.engine.recorder.Lost(h)
	if h.Requester != nil {
		a.tellLost(h, h.Reason())
		a.unwatch(c, a.requesters.Ended(h))
	}
}

// unwatch stops watching an actor, unless it is nil.
func (a *shell) unwatch(c actor.Context, requester lease.Ref) {
	if requester != nil {
		a.tell(requester, &actor.Unwatch{Watcher: c.Self()}, true)
	}
}

var errReplaced = errors.New("the actor of this name has terminated, and what it had has ended")

// requesterGone ends the waits of a terminated actor and releases its leases. Usually it sends no answers, because nobody would receive them. But if
// `replaced` is set, a new actor has the same name now. Some of the requests may come from the new actor, which would wait for their answers for
// ever. So in this case requesterGone answers all requests. The machine gets a separate message for each wait and for each lease. If the machine
// panics over one of them, the others still end.
func (a *shell) requesterGone(c actor.Context, pid *actor.PID, replaced bool) {
	waits, holds := a.requesters.Gone(pid)
	for _, r := range waits {
		r.StopTimer()
		if replaced {
			r.Err = r.Because(fmt.Errorf("%w: %w", protocol.ErrNotAcquired, errReplaced))
			a.engine.api.Answer(r)
			r.Err = nil
		}
		r.Requester, r.Notify = nil, a.engine.giveBack
		a.handle(c, wait.CancelRequest{Request: r, Cause: protocol.ErrNotAcquired})
	}
	for _, h := range holds {
		if !h.Claim() {
			continue // it is being released
		}
		a.handle(c, &wait.Request{Do: wait.Release, Address: h.Address(), Hold: h, Notify: func(*wait.Request) {}})
		if replaced {
			a.tellLost(h, fmt.Errorf("%w: %w", protocol.ErrLeaseLost, errReplaced))
		}
	}
}

// giveBack is called with the answer to a request whose requester is gone. If the request has acquired a lease, giveBack releases that lease.
func (e *Engine) giveBack(r *wait.Request) {
	if r.Err == nil {
		e.ReleaseAsync(r.Hold)
	}
}

// countRequesters calls requesterGone for each requester that no longer lives. The shell watches the requesters, but protoactor sends no Terminated
// for an actor that panics while it stops.
func (a *shell) countRequesters(c actor.Context) {
	for _, pid := range a.requesters.All() {
		if pid := pid.(*actor.PID); !a.engine.lives(pid) {
			a.requesterGone(c, pid, false)
		}
	}
}

// lives reports whether an actor of this system has this PID now. A new actor may have the name of a terminated one, so the
// result may be true although the original actor has terminated.
func (e *Engine) lives(pid *actor.PID) bool {
	_, there := e.system.ProcessRegistry.GetLocal(pid.Id)
	return there
}

// tellLost sends a requester the message that its lease was lost.
func (a *shell) tellLost(h *lease.Hold, err error) {
	lock := h.Address()
	a.tell(h.Requester, &protocol.Lost{
		Kind: lock.Kind.Name, Lock: lock.Name, Serial: h.Serial, Err: fmt.Errorf("holdfast: lock %q: %w", lock.Name, err),
	}, false)
}

// tell sends a message about this lock to a requester. It uses the outbox, because delivery may block.
func (a *shell) tell(requester lease.Ref, message any, system bool) {
	a.engine.outbox.Post(requester.(*actor.PID), outbox.Message{Lock: a.address.Name, Content: message, System: system})
}
