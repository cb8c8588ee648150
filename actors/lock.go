package actors

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// stepper is the pure part of a lock actor: a lockState, or a hall of several.
type stepper interface {
	step(now time.Duration, message any) []effect
	distrust(now time.Duration) []effect
	idle() bool
	waitingOf(requester *actor.PID, id uint64) *Request
	forget(r *Request)
	requesters() []*actor.PID // those that wait or hold; some more than once
	leased() bool             // somebody has a lease
	room() *[]effect          // where the effects of the next step go
	start(self *actor.PID)
}

// lockActor is the shell around a stepper: it receives, calls step, and carries out the effects.
// It owns one name in one family; its router spawns it on the first message and stops it when idle.
// It never blocks: calls go to the gateway, subscriptions to the subscriber, and their answers come back as messages.
type lockActor struct {
	// fixed at construction
	engine *Engine
	router *actor.PID
	lane   *lane
	slot   *slot // its place in the router, handed back as is

	// owned by the actor; touched only in Receive
	state     stepper
	timer     Timer
	announced bool     // the router knows that we are idle
	request   *Request // the one being handled, to be refused after a panic
}

func newLockActor(r *router, self *actor.PID, s *slot) *lockActor {
	policy := &r.engine.policy
	if s.address.Kind.Spins {
		policy = &r.engine.spinning
	}
	return &lockActor{engine: r.engine, router: self, lane: r.lane, slot: s, state: newStepper(policy, s.address)}
}

func newStepper(policy *Policy, address *Address) stepper {
	if address.Kind.Many() {
		many := &hall{}
		many.init(policy, address)
		return many
	}
	one := &lockState{}
	one.init(policy, address)
	return one
}

// What a step needs for a moment, and a call until it is answered: it would be half of what a pair allocates.
var (
	effectBuffers = sync.Pool{New: func() any { return new([]effect) }}
	lockCalls     = sync.Pool{New: func() any { return new(lockCall) }}
)

// Receive is the actor's only entry.
func (l *lockActor) Receive(c actor.Context) {
	defer l.recoverFrom(c)
	switch m := c.Message().(type) {
	case *actor.Started:
		l.state.start(c.Self())
	case *actor.Stopping:
		l.stopTimer()
	case *actor.Stopped, *actor.Restarting:
	case *actor.Terminated:
		l.step(c, requesterGone{pid: m.Who, replaced: l.engine.lives(m.Who)})
	case countRequesters:
		l.countRequesters(c)
	case *result:
		l.onResult(c, m)
	case *Request:
		l.request = m
		l.step(c, m)
		l.request = nil
	case closeLock:
		if m.stage == closing && l.state.leased() {
			l.engine.cutOff(l.slot.address.Name)
		}
		l.step(c, m)
	case cancelByID:
		if r := l.state.waitingOf(m.requester, m.id); r != nil {
			l.step(c, cancelRequest{request: r, cause: protocol.ErrNotAcquired})
		}
	default:
		l.step(c, m)
	}
}

func (l *lockActor) onResult(c actor.Context, m *result) {
	call, last := m.call.tag.(*lockCall), m.last
	call.done = read(call, m)
	l.step(c, &call.done)
	if last && call.main() {
		*call = lockCall{}
		lockCalls.Put(call)
	}
}

func (l *lockActor) step(c actor.Context, message any) {
	buffer := effectBuffers.Get().(*[]effect)
	room := l.state.room()
	*room = (*buffer)[:0]
	effects := l.state.step(l.engine.clock.Now(), message)
	l.carryOut(c, effects)
	*room = nil
	clear(effects)
	*buffer = effects
	effectBuffers.Put(buffer)
	if !l.announced && l.state.idle() {
		l.announced = true
		c.Send(l.router, lockIdle{l.slot})
	}
}

func (l *lockActor) carryOut(c actor.Context, effects []effect) {
	room := l.state.room()
	for i := range effects {
		e := &effects[i]
		*room = effects[i+1:] // what is left to do after a panic
		switch e.do {
		case doCall:
			l.call(c, e.call)
		case doAnswer:
			if e.request == l.request {
				l.request = nil
			}
			l.engine.answer(e.request)
		case doForget:
			e.request.stopTimer()
		case doTellLost:
			a := e.hold.Address()
			l.tell(e.hold.requester, &protocol.Lost{
				Kind: a.Kind.Name, Lock: a.Name, Serial: e.hold.serial, Err: fmt.Errorf("holdfast: lock %q: %w", a.Name, e.err),
			}, false)
		case doKeep:
			l.engine.watchdog.keep(e.grant)
		case doDrop:
			l.engine.watchdog.drop(e.grant)
		case doWatch:
			c.Send(l.engine.subscriber, watchChannel{e.channel, l.slot.address.Name, c.Self()})
		case doUnwatch:
			c.Send(l.engine.subscriber, unwatchChannel{e.channel, c.Self()})
		case doAlarm:
			l.setTimer(c, e.at)
		case doGuard:
			l.tell(e.pid, &actor.Watch{Watcher: c.Self()}, true)
		case doUnguard:
			l.tell(e.pid, &actor.Unwatch{Watcher: c.Self()}, true)
		case doEmit:
			l.engine.events.emit(e.event)
		case doStop:
			c.Stop(c.Self())
		case doStay:
			l.announced = false
			c.Send(l.router, lockStays{l.slot})
		}
	}
}

// countRequesters looks whether the requesters are still there. They are watched, but protoactor tells nobody of an actor that panics
// while it stops.
func (l *lockActor) countRequesters(c actor.Context) {
	for _, pid := range l.state.requesters() {
		if !l.engine.lives(pid) {
			l.step(c, requesterGone{pid: pid})
		}
	}
}

// tell has a requester told something about this lock.
func (l *lockActor) tell(requester *actor.PID, message any, system bool) {
	l.engine.couriers.post(requester, letter{lock: l.slot.address.Name, message: message, system: system})
}

// setTimer arms the one timer of this actor; a timer that fires for an instant that was moved is harmless.
func (l *lockActor) setTimer(c actor.Context, at time.Duration) {
	if at == never {
		l.stopTimer()
		return
	}
	delay := max(at-l.engine.clock.Now(), 0)
	if l.timer != nil {
		l.timer.Reset(delay)
		return
	}
	root, self := l.engine.root, c.Self()
	l.timer = l.engine.clock.AfterFunc(delay, func() { root.Send(self, alarm{}) })
}

// stopTimer lets go of the timer: most locks never need one again.
func (l *lockActor) stopTimer() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

func (l *lockActor) call(c actor.Context, call *lockCall) {
	kind, raw, site := call.address.Kind, call.address.Raw, &l.engine.site
	var script scripts.Call
	switch call.do {
	case callAcquire:
		script = kind.Acquire(site, raw, scripts.Terms{
			Grant: call.grant, Lease: call.lease, Alone: call.alone, WantHolder: call.holder, Try: call.try, Standing: call.standing, Room: &call.room,
		})
	case callPass:
		terms := scripts.Terms{From: call.from, Grant: call.grant, Lease: call.lease, TurnEnds: call.ends, Idlers: call.idlers}
		script = kind.Pass(site, raw, terms)
	case callRelease, callGhost:
		terms := scripts.Terms{Grant: call.grant, Room: &call.room}
		if call.heir != nil {
			terms.Heir, terms.HeirLease = call.heir.id, call.heir.lease
		}
		script = kind.Release(site, raw, terms)
	case callExtend:
		script = kind.Renew(site, []string{raw}, []string{call.grant}, call.lease)
	case callInspect, callLook:
		script = kind.Inspect(raw)
	case callForceRelease:
		script = kind.ForceRelease(site, raw)
	}
	outlet := l.lane.gateway
	if call.do == callAcquire {
		outlet = l.lane.acquires
	}
	call.Call, call.scriptCall.from, call.tag = script, c.Self(), call
	c.Send(outlet, &call.scriptCall)
}

// read turns a raw result into what the step understands.
func read(call *lockCall, m *result) callDone {
	done := callDone{call: call, class: m.class, err: m.err, sent: m.sent}
	if m.class != scripts.Done {
		return done
	}
	var err error
	switch call.do {
	case callAcquire:
		done.acquired, err = scripts.ReadAcquired(m.reply, call.grant)
		done.unacked = m.unacked
	case callRelease, callGhost:
		var released scripts.Released
		released, err = scripts.ReadReleased(m.reply)
		done.receivers, done.held = released.Receivers, released.Held
		done.inherits = call.heir != nil && released.Heir == call.heir.id
	case callPass:
		var passed scripts.Passed
		passed, err = scripts.ReadPassed(m.reply, call.grant)
		done.held, done.tokens, done.receivers = passed.Held, passed.Tokens, passed.Receivers
	case callForceRelease:
		done.freed, err = scripts.ReadFreed(m.reply)
		done.held = len(done.freed) > 0
	case callExtend:
		var gone []int
		gone, err = scripts.ReadRenewed(m.reply, []string{call.grant})
		done.held = len(gone) == 0
	case callInspect, callLook:
		done.state, err = scripts.ReadInspected(m.reply)
		done.held = slices.ContainsFunc(done.state.Holders, func(h protocol.Holder) bool { return h.ID == call.grant })
	}
	if err != nil {
		done.class, done.err = scripts.Unknown, err
		if errors.Is(err, protocol.ErrForeignKey) { // the answer is good, but not about a lock
			done.class = scripts.Rejected
		}
	}
	return done
}

// recoverFrom keeps a panic from taking anybody along: the request at hand is refused, the lock starts over from what Redis says.
func (l *lockActor) recoverFrom(c actor.Context) {
	value := recover()
	if value == nil {
		return
	}
	name := l.slot.address.Name
	l.engine.events.emit(protocol.ActorPanicked{Name: name, Value: value, Stack: string(debug.Stack())})
	if r := l.request; r != nil {
		l.request = nil
		l.state.forget(r)
		r.err = r.because(fmt.Errorf("the lock's actor panicked: %v", value))
		l.engine.answer(r)
	}
	l.carryOut(c, l.state.distrust(l.engine.clock.Now()))
	*l.state.room() = nil
}
