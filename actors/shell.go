package actors

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/pubsub"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/protocol"
)

// shell is the actor of one name in one family: it receives, calls its machine's step, and carries out the effects. Its router spawns it
// on the first message and stops it when idle. It never blocks: calls go to the gateway, subscriptions to the subscriber, and their
// answers come back as messages.
type shell struct {
	// fixed at construction
	engine *Engine
	router *actor.PID
	lane   *lane
	slot   *slot // its place in the router, handed back as is

	// owned by the actor; touched only in Receive
	machine   machine
	timer     clock.Timer
	announced bool     // the router knows that we are idle
	request   *Request // the one being handled, to be refused after a panic
}

func newShell(r *router, self *actor.PID, s *slot) *shell {
	machine := newMachine(&r.engine.policy, &r.engine.spinning, s.address)
	return &shell{engine: r.engine, router: self, lane: r.lane, slot: s, machine: machine}
}

// Receive is the actor's only entry.
func (a *shell) Receive(c actor.Context) {
	defer a.recoverFrom(c)
	switch m := c.Message().(type) {
	case *actor.Started:
		a.machine.start(c.Self())
	case *actor.Stopping:
		a.stopTimer()
	case *actor.Stopped, *actor.Restarting:
	case *actor.Terminated:
		a.step(c, requesterGone{pid: m.Who, replaced: a.engine.lives(m.Who)})
	case countRequesters:
		a.countRequesters(c)
	case *rpc.Result:
		a.onResult(c, m)
	case *Request:
		a.request = m
		a.step(c, m)
		a.request = nil
	case closeLock:
		if m.stage == closing && a.machine.leased() {
			a.engine.cutOff(a.slot.address.Name)
		}
		a.step(c, m)
	case cancelByID:
		if r := a.machine.waitingOf(m.requester, m.id); r != nil {
			a.step(c, cancelRequest{request: r, cause: protocol.ErrNotAcquired})
		}
	default:
		a.step(c, m)
	}
}

func (a *shell) onResult(c actor.Context, m *rpc.Result) {
	call, last := m.Call.Tag.(call), m.Last
	message, told := call.answered(m)
	if told != nil {
		c.Send(a.router, news{a.slot, told})
	}
	a.step(c, message)
	if last {
		call.recycle()
	}
}

func (a *shell) step(c actor.Context, message any) {
	buffer := effectBuffers.Get().(*[]effect)
	room := a.machine.room()
	*room = (*buffer)[:0]
	effects := a.machine.step(a.engine.clock.Now(), message)
	a.carryOut(c, effects)
	*room = nil
	clear(effects)
	*buffer = effects
	effectBuffers.Put(buffer)
	if !a.announced && a.machine.idle() {
		a.announced = true
		c.Send(a.router, lockIdle{a.slot})
	}
}

func (a *shell) carryOut(c actor.Context, effects []effect) {
	room := a.machine.room()
	for i := range effects {
		e := &effects[i]
		*room = effects[i+1:] // what is left to do after a panic
		switch e.do {
		case doCall:
			a.call(c, e.call)
		case doAnswer:
			if e.request == a.request {
				a.request = nil
			}
			a.engine.answer(e.request)
		case doForget:
			e.request.stopTimer()
		case doTellLost:
			lock := e.hold.Address()
			a.tell(e.hold.Requester, &protocol.Lost{
				Kind: lock.Kind.Name, Lock: lock.Name, Serial: e.hold.Serial, Err: fmt.Errorf("holdfast: lock %q: %w", lock.Name, e.err),
			}, false)
		case doKeep:
			a.engine.watchdog.keep(e.grant)
		case doDrop:
			a.engine.watchdog.drop(e.grant)
		case doWatch:
			c.Send(a.engine.subscriber, pubsub.Subscribe{Channel: e.channel, Name: a.slot.address.Name, Who: c.Self()})
		case doUnwatch:
			c.Send(a.engine.subscriber, pubsub.Unsubscribe{Channel: e.channel, Who: c.Self()})
		case doAlarm:
			a.setTimer(c, e.at)
		case doGuard:
			a.tell(e.pid, &actor.Watch{Watcher: c.Self()}, true)
		case doUnguard:
			a.tell(e.pid, &actor.Unwatch{Watcher: c.Self()}, true)
		case doEmit:
			a.engine.events.Emit(e.event)
		case doStop:
			c.Stop(c.Self())
		case doStay:
			a.announced = false
			c.Send(a.router, lockStays{a.slot})
		}
	}
}

// countRequesters looks whether the requesters are still there. They are watched, but protoactor tells nobody of an actor that panics
// while it stops.
func (a *shell) countRequesters(c actor.Context) {
	for _, pid := range a.machine.requesters() {
		if !a.engine.lives(pid.(*actor.PID)) {
			a.step(c, requesterGone{pid: pid})
		}
	}
}

// tell has a requester told something about this lock.
func (a *shell) tell(requester lease.Ref, message any, system bool) {
	a.engine.outbox.Post(requester.(*actor.PID), outbox.Message{Lock: a.slot.address.Name, Content: message, System: system})
}

// setTimer arms the one timer of this actor; a timer that fires for an instant that was moved is harmless.
func (a *shell) setTimer(c actor.Context, at time.Duration) {
	if at == clock.Never {
		a.stopTimer()
		return
	}
	delay := max(at-a.engine.clock.Now(), 0)
	if a.timer != nil {
		a.timer.Reset(delay)
		return
	}
	root, self := a.engine.root, c.Self()
	a.timer = a.engine.clock.AfterFunc(delay, func() { root.Send(self, alarm{}) })
}

// stopTimer lets go of the timer: most locks never need one again.
func (a *shell) stopTimer() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

func (a *shell) call(c actor.Context, call call) {
	outlet := a.lane.gateway
	if call.acquires() {
		outlet = a.lane.acquires
	}
	carrier := call.carrier()
	carrier.Call, carrier.From, carrier.Tag = call.script(&a.engine.site, a.engine.masters), c.Self(), call
	c.Send(outlet, carrier)
}

// recoverFrom keeps a panic from taking anybody along: the request at hand is refused, the machine starts over from what Redis says.
func (a *shell) recoverFrom(c actor.Context) {
	value := recover()
	if value == nil {
		return
	}
	name := a.slot.address.Name
	a.engine.events.Emit(protocol.ActorPanicked{Name: name, Value: value, Stack: string(debug.Stack())})
	if r := a.request; r != nil {
		a.request = nil
		a.machine.forget(r)
		r.err = r.because(fmt.Errorf("%w: %v", errPanicked, value))
		a.engine.answer(r)
	}
	a.carryOut(c, a.machine.distrust(a.engine.clock.Now()))
	*a.machine.room() = nil
}
