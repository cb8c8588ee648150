package actors

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/pubsub"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
)

// shell is the actor of one name in one family. It receives messages, calls the step of its machine, and carries out the effects. When it has been
// idle for a while, the registry may give it another name, or stop it. A shell never blocks: it sends calls to the gateway and subscriptions to the
// subscriber, and receives the answers as messages.
type shell struct {
	// fixed at construction
	engine *Engine
	member *member // the registry's entry for this actor

	// owned by the actor; touched only in Receive
	address    *lease.Address // a copy, because the address in the first request belongs to the user's handle
	machine    wait.Machine
	requesters wait.Requesters
	inspected  chan struct{} // closed when the newest inspect of a user's actor is answered; nil if there was none
	timer      clock.Timer
	stage      wait.Stage
	idle       bool          // whether the machine was idle, as last reported to the registry
	request    *wait.Request // the request that is being handled and has no answer yet; it is refused after a panic
}

// init prepares the shell for its first message.
func (a *shell) init(e *Engine, m *member, address *lease.Address, stage wait.Stage) {
	*a = shell{engine: e, member: m, stage: stage, idle: true}
	a.takeName(address)
}

// takeName makes the shell the actor of a name. Its machine was idle, so nothing of the previous name is left, except perhaps messages on their way.
// They do no harm: they are about grants, channels or calls that the new machine does not have, or cost one needless step or attempt.
func (a *shell) takeName(address *lease.Address) {
	a.stopTimer()
	own := *address
	a.address, a.machine = &own, newMachine(a.engine, a.member, &own, a.machine)
	if a.stage != wait.Running {
		a.machine.Step(a.engine.clock.Now(), wait.Close{Stage: a.stage}) // the machine is empty, so the step has no effects
	}
}

// Receive is the actor's only entry.
func (a *shell) Receive(c actor.Context) {
	message, counted := c.Message(), false
	switch m := message.(type) {
	case *actor.Started:
		return
	case *actor.Stopping:
		a.stopTimer()
		return
	case *actor.Stopped:
		a.member.stopped()
		return
	case *wait.Request:
		counted = m.Routed
	case routed:
		message, counted = m.message, true
	}
	a.handle(c, message)
	a.report(counted)
}

// report tells the registry that a message has been handled.
func (a *shell) report(counted bool) {
	idle := a.machine.Idle()
	if !counted && idle == a.idle {
		return // nothing has changed for the registry
	}
	a.idle = idle
	if a.member.handled(counted, idle) {
		a.member.stop()
	}
}

func (a *shell) handle(c actor.Context, message any) {
	defer a.recoverFrom(c)
	switch m := message.(type) {
	case *actor.Terminated:
		a.requesterGone(c, m.Who, a.engine.lives(m.Who))
	case lease.CountRequesters:
		a.countRequesters(c)
	case *rpc.Result:
		call, last := m.Call.Tag.(wait.Call), m.Last
		result, told := call.Answered(m)
		if told != nil {
			a.engine.registry.tellOthers(a.address, told)
		}
		a.step(c, result)
		if last {
			call.Recycle()
		}
	case heldQuery:
		m.answer <- a.held()
	case *wait.Request:
		// This request was on its way when Close began. A release that is sent straight to this actor is not Routed, and not refused.
		if m.Routed && a.stage >= wait.Closing {
			a.engine.refuse(m)
			return
		}
		if m.Routed && keyOf(m.Address) != keyOf(a.address) {
			a.takeName(m.Address)
		}
		if m.Do == wait.Inspect {
			a.inspect(m)
			return
		}
		if m.Requester == nil || a.admit(c, m) {
			a.request = m
			a.step(c, m)
			a.request = nil
		}
	case wait.Close:
		a.onClose(c, m)
	case cancelByID:
		if r := a.requesters.Waiting(m.requester, m.id); r != nil && r.Address.Kind == m.kind {
			a.step(c, wait.CancelRequest{Request: r, Cause: protocol.ErrNotAcquired})
		}
	default:
		a.step(c, m)
	}
}

func (a *shell) onClose(c actor.Context, m wait.Close) {
	a.stage = max(a.stage, m.Stage)
	if m.Stage == wait.Closing && a.leased() {
		a.engine.cutOff(a.address.Name)
	}
	a.step(c, m)
}

func (a *shell) step(c actor.Context, message any) {
	buffer := effectBuffers.Get().(*[]wait.Effect)
	room := a.machine.Room()
	*room = (*buffer)[:0]
	effects := a.machine.Step(a.engine.clock.Now(), message)
	a.carryOut(c, effects)
	*room = nil
	clear(effects)
	*buffer = effects
	effectBuffers.Put(buffer)
}

func (a *shell) carryOut(c actor.Context, effects []wait.Effect) {
	room, last := a.machine.Room(), lastCall(effects)
	for i := range effects {
		e := &effects[i]
		*room = effects[i+1:] // the effects after this one. If carrying out this one panics, Distrust returns them
		switch e.Do {
		case wait.DoCall:
			a.call(e.Call, i == last)
		case wait.DoAnswer:
			if e.Request == a.request {
				a.request = nil
			}
			if e.Request.Requester != nil {
				a.answered(c, e.Request)
			}
			a.engine.answer(e.Request)
		case wait.DoLost:
			a.lost(c, e.Hold)
		case wait.DoKeep:
			a.engine.watchdog.Keep(e.Grant)
		case wait.DoDrop:
			a.engine.watchdog.Drop(e.Grant)
		case wait.DoWatch:
			c.Send(a.engine.subscriber, pubsub.Subscribe{Channel: e.Channel, Name: a.address.Name, Who: a.member})
		case wait.DoUnwatch:
			c.Send(a.engine.subscriber, pubsub.Unsubscribe{Channel: e.Channel, Who: a.member})
		case wait.DoLinger:
			a.engine.recorder.Linger(1)
		case wait.DoUnlinger:
			a.engine.recorder.Linger(-1)
		case wait.DoAlarm:
			a.setTimer(e.At)
		case wait.DoEmit:
			a.engine.events.Emit(e.Event)
		case wait.DoLeave:
			a.engine.leave(a.address.Name, e.Err)
		case wait.DoReport:
			a.engine.recorder.Waiting(e.Request.Span, *e.Waiting)
			a.engine.events.Emit(*e.Waiting)
		}
	}
}

// setTimer sets the timer of this actor. The timer may still fire for an instant that was set earlier. This does no harm, because the machine then
// does only what is due.
func (a *shell) setTimer(at time.Duration) {
	if at == clock.Never {
		a.stopTimer()
		return
	}
	delay := max(at-a.engine.clock.Now(), 0)
	if a.timer != nil {
		a.timer.Reset(delay)
		return
	}
	a.timer = a.engine.clock.AfterFunc(delay, func() { a.member.Send(wait.Alarm{}) })
}

// stopTimer drops the timer, to save memory: most locks never need one again.
func (a *shell) stopTimer() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// lastCall returns the index of the last call, or -1 if there is none.
func lastCall(effects []wait.Effect) int {
	for i := len(effects) - 1; i >= 0; i-- {
		if effects[i].Do == wait.DoCall {
			return i
		}
	}
	return -1
}

// call sends a call, or leaves it to the goroutine that made the request (rpc.Offer). Only the last call of a step may be left to that goroutine, so
// that the calls of a step keep their order.
func (a *shell) call(call wait.Call, last bool) {
	carrier := call.Carrier()
	carrier.Call, carrier.From, carrier.Tag = call.ScriptCall(&a.engine.site, a.engine.serverTime), a.member, call
	if r := a.request; last && r != nil && r.Offer.Leave(carrier) {
		return
	}
	a.member.shard.lane.outlet(carrier).Submit(carrier)
}

// recoverFrom limits the damage of a panic to one lock. The request that was being handled is refused, the holders' leases end, and the machine
// starts over from the state in Redis.
func (a *shell) recoverFrom(c actor.Context) {
	value := recover()
	if value == nil {
		return
	}
	name := a.address.Name
	a.engine.events.Emit(protocol.ActorPanicked{Name: name, Value: value, Stack: string(debug.Stack())})
	r := a.request
	a.request = nil
	effects := a.machine.Distrust(a.engine.clock.Now(), r)
	if r != nil {
		r.Err = r.Because(fmt.Errorf("%w: %v", wait.ErrPanicked, value))
		if r.Requester != nil {
			a.answered(c, r)
		}
		a.engine.answer(r)
	}
	a.carryOut(c, effects)
	*a.machine.Room() = nil
}
