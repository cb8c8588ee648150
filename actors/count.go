package actors

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// countActor is the shell around countState, as lockActor is around lockState: it receives, calls step, and carries out the effects.
// It owns one counter; its router spawns it on the first message and stops it when idle. It never blocks.
type countActor struct {
	// fixed at construction
	engine *Engine
	router *actor.PID
	lane   *lane
	slot   *slot // its place in the router, handed back as is

	// owned by the actor; touched only in Receive
	state     countState
	timer     Timer
	announced bool     // the router knows that we are idle
	request   *Request // the one being handled, to be refused after a panic
}

func newCountActor(r *router, self *actor.PID, s *slot) *countActor {
	return &countActor{
		engine: r.engine, router: self, lane: r.lane, slot: s, state: countState{policy: &r.engine.policy, address: s.address, alarmAt: never},
	}
}

var countBuffers = sync.Pool{New: func() any { return new([]countEffect) }}

// Receive is the actor's only entry.
func (a *countActor) Receive(c actor.Context) {
	defer a.recoverFrom(c)
	switch m := c.Message().(type) {
	case *actor.Started, *actor.Stopped, *actor.Restarting:
	case *actor.Stopping:
		a.stopTimer()
	case *result:
		done := readCounted(m)
		a.step(c, &done)
	case *Request:
		a.request = m
		a.step(c, m)
		a.request = nil
	default:
		a.step(c, m)
	}
}

func (a *countActor) step(c actor.Context, message any) {
	buffer := countBuffers.Get().(*[]countEffect)
	a.state.effects = (*buffer)[:0]
	effects := a.state.step(a.engine.clock.Now(), message)
	a.carryOut(c, effects)
	a.state.effects = nil
	clear(effects)
	*buffer = effects
	countBuffers.Put(buffer)
	if !a.announced && a.state.idle() {
		a.announced = true
		c.Send(a.router, lockIdle{a.slot})
	}
}

func (a *countActor) carryOut(c actor.Context, effects []countEffect) {
	for i := range effects {
		e := &effects[i]
		a.state.effects = effects[i+1:] // what is left to do after a panic
		switch e.do {
		case doCall:
			a.call(c, e.call)
		case doAnswer:
			if e.request == a.request {
				a.request = nil
			}
			a.engine.answer(e.request)
		case doWatch:
			c.Send(a.engine.subscriber, watchChannel{a.channel(), a.slot.address.Name, c.Self()})
		case doUnwatch:
			c.Send(a.engine.subscriber, unwatchChannel{a.channel(), c.Self()})
		case doAlarm:
			a.setTimer(c, e.at)
		case doEmit:
			a.engine.events.emit(e.event)
		case doStop:
			c.Stop(c.Self())
		case doStay:
			a.announced = false
			c.Send(a.router, lockStays{a.slot})
		}
	}
}

func (a *countActor) channel() string { return a.slot.address.Kind.Channel(a.slot.address.Raw, "") }

// setTimer arms the one timer of this actor; a timer that fires for an instant that was moved is harmless.
func (a *countActor) setTimer(c actor.Context, at time.Duration) {
	if at == never {
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

func (a *countActor) stopTimer() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// limitMargin is how much earlier than its time the result of a request counts as forgotten by Redis.
const limitMargin = 3 * time.Second

func (a *countActor) call(c actor.Context, call *countCall) {
	call.Call, call.from, call.tag = a.engine.countScript(a.slot.address.Raw, call), c.Self(), call
	c.Send(a.lane.gateway, &call.scriptCall)
}

// countScript is the script of a call. Redis keeps the result of a request for a while, by its own clock: no copy of the request may
// run after that, whatever has become of this process and of our idea of the server's clock meanwhile.
func (e *Engine) countScript(raw string, call *countCall) scripts.Call {
	script, c := call.op.Call(&e.site, raw, call.terms), call.copies
	if script.Bounded() {
		if n := e.masters.of(raw); c.limit == 0 && n != nil && n.clock.known() {
			c.limit = n.clock.at(c.sent + call.terms.Keep - limitMargin)
		}
		script.Limit = c.limit
	}
	return script
}

// readCounted turns a raw result into what the step understands.
func readCounted(m *result) countDone {
	call := m.call.tag.(*countCall)
	done := countDone{call: call, class: m.class, err: m.err, sent: m.sent}
	if ms, late := scripts.LateBy(m.err); late {
		done.expired = call.copies.limit > 0 && ms > call.copies.limit
	}
	if m.class != scripts.Done {
		return done
	}
	var err error
	if done.counted, err = scripts.ReadCounted(m.reply, call.op, &call.terms); err != nil {
		done.class, done.err = scripts.Unknown, err
	}
	return done
}

// recoverFrom keeps a panic from taking anybody along: the request at hand is refused, the calls on their way are repeated.
func (a *countActor) recoverFrom(c actor.Context) {
	value := recover()
	if value == nil {
		return
	}
	name := a.slot.address.Name
	a.engine.events.emit(protocol.ActorPanicked{Name: name, Value: value, Stack: string(debug.Stack())})
	if r := a.request; r != nil {
		a.request = nil
		a.state.queue.remove(r)
		r.err = r.because(fmt.Errorf("the counter's actor panicked: %v", value))
		a.engine.answer(r)
	}
	a.carryOut(c, a.state.distrust(a.engine.clock.Now()))
	a.state.effects = nil
}
