package actors

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Inspects and force-releases neither wait for a lock nor hold it. One script call answers them, whatever the machine of the lock is doing. So the
// machine has no part in them: its actor is only asked for its leases, and told which grants a force-release has ended.

// Inspect reads the state of a lock.
func (e *Engine) Inspect(ctx context.Context, a *lease.Address) (protocol.State, error) {
	r := &wait.Request{Do: wait.Inspect, Address: a}
	if err := e.awaitBackground(ctx, r, nil, func() error { return e.inspect(r) }); err != nil {
		return protocol.State{}, err
	}
	return *r.State, nil
}

// ForceRelease frees a lock, whoever holds it. It reports whether the lock was held. When it returns without an error, the local holders know that
// their leases have ended.
func (e *Engine) ForceRelease(ctx context.Context, a *lease.Address) (bool, error) {
	r, executed := &wait.Request{Do: wait.ForceRelease, Address: a}, make(chan struct{})
	if deadline, ok := ctx.Deadline(); ok {
		r.Deadline = e.clock.Now() + time.Until(deadline)
	}
	if err := e.awaitBackground(ctx, r, executed, func() error { return e.forceRelease(r, executed) }); err != nil {
		return false, err
	}
	return r.Held, nil
}

// awaitBackground calls `do` for a request, on another goroutine, and waits for the answer until ctx ends. After that, the request may still be
// executed. If the channel `executed` is closed by then, awaitBackground still waits for the answer: ctx may be the context of a lease that a
// force-release has just ended.
func (e *Engine) awaitBackground(ctx context.Context, r *wait.Request, executed <-chan struct{}, do func() error) error {
	if err := ctx.Err(); err != nil {
		return r.Because(err)
	}
	answered := make(chan struct{})
	if !e.inBackground(r, do, func() { close(answered) }) {
		return r.Because(protocol.ErrClosed)
	}
	select {
	case <-answered:
	case <-ctx.Done():
		select {
		case <-executed:
			<-answered
		default:
			return r.Because(ctx.Err())
		}
	}
	return r.Err
}

// inBackground calls `do` for a request, on a goroutine of its own, and then calls `answered`. The goroutine continues if the requester stops
// waiting, because local holders must learn of a force-release all the same. Close waits for the goroutine. If the engine is closing, inBackground
// calls neither function, and returns false.
func (e *Engine) inBackground(r *wait.Request, do func() error, answered func()) bool {
	if !e.beginBackground() {
		return false
	}
	go func() {
		defer e.background.Done()
		defer answered()
		defer e.events.RecoverIn(r.Do.String())
		r.Err = r.Because(wait.ErrPanicked) // stays if `do` panics
		err := do()
		if r.Err = nil; err != nil {
			r.Err = r.Because(err)
		}
	}()
	return true
}

// inspect carries out an inspect of a user's actor. The inspects of a name are answered in order.
func (a *shell) inspect(r *wait.Request) {
	before, answered := a.inspected, make(chan struct{})
	begun := a.engine.inBackground(r, func() error { return a.engine.inspect(r) }, func() {
		if before != nil {
			<-before
		}
		a.engine.answer(r)
		close(answered)
	})
	if !begun {
		a.engine.refuse(r)
		return
	}
	a.inspected = answered
}

func (e *Engine) inspect(r *wait.Request) error {
	result, err := e.callOnce(r, func() scripts.Call { return r.Address.Kind.Inspect(r.Address.Raw) })
	switch {
	case err != nil:
		return err
	case result.Class != scripts.Done:
		return scripts.Explain(result.Err)
	}
	state, err := scripts.ReadInspected(result.Reply)
	if err != nil {
		return err
	}
	held := e.heldOf(keyOf(r.Address))
	state.Waiting = held.Waiting
	for _, h := range held.Holds {
		state.Local = append(state.Local, h.Holder())
	}
	r.State = &state
	return nil
}

// forceRelease closes the channel `executed` when Redis has answered. It tells the actors of the lock which grants have ended, before it returns. If the outcome is unknown, the actors ask Redis whether their
// grants still exist. The call is not repeated then, because the repeat could end the lease of the next holder.
func (e *Engine) forceRelease(r *wait.Request, executed chan<- struct{}) error {
	result, err := e.callOnce(r, func() scripts.Call { return r.Address.Kind.ForceRelease(&e.site, r.Address.Raw) })
	close(executed)
	if err != nil {
		return unknownOutcome(err)
	}
	freed, err := readFreed(result)
	switch r.Held = len(freed) > 0; {
	case r.Held:
		e.registry.tellAll(r.Address, wait.Freed{Grants: freed, Reason: protocol.LossForceReleased})
	case result.Class == scripts.Unknown:
		e.registry.tellAll(r.Address, wait.LookAround{})
	}
	e.awaitHolders(r.Address)
	return err
}

// readFreed reads the reply to a force-release. If the reply cannot be understood, readFreed sets result.Class to Unknown.
func readFreed(result *rpc.Result) (freed []string, err error) {
	err = result.Err
	switch result.Class {
	case scripts.Done:
		if freed, err = scripts.ReadFreed(result.Reply); err == nil {
			return freed, nil
		}
		result.Class = scripts.Unknown // the reply cannot be understood
	case scripts.Unknown:
	default:
		return nil, scripts.Explain(err)
	}
	return nil, unknownOutcome(err)
}

func unknownOutcome(cause error) error {
	return fmt.Errorf("outcome unknown, the lock may be free or not: %w", cause)
}

// callOnce makes the call for a request. If the call reached the server after its deadline, it was not executed. Such a call is made once more, now
// that the server's clock is known better.
func (e *Engine) callOnce(r *wait.Request, call func() scripts.Call) (*rpc.Result, error) {
	timing := rpc.Hasty(e.clock.Now(), rpc.Window(e.policy.Lease))
	over := timing.Until
	if r.Deadline > 0 && r.Deadline < over { // after the requester's deadline, a force-release could end the next holder's lease
		timing.Until, timing.Grace = r.Deadline, over-r.Deadline
	}
	result, err := e.askOnce(e.ctx, r.Address, &rpc.Call{Call: call(), Timing: timing})
	if err == nil {
		if _, late := scripts.LateBy(result.Err); late && e.clock.Now() < over {
			result, err = e.askOnce(e.ctx, r.Address, &rpc.Call{Call: call(), Timing: timing})
		}
	}
	if err != nil {
		return nil, protocol.ErrClosed // only Close ends e.ctx
	}
	return result, nil
}
