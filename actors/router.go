package actors

import (
	"fmt"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// router finds or spawns the lock actor of a name and forwards to it. It decides nothing about locks.
//
// It retires idle lock actors by a hand-shake, because protoactor drops messages to an actor that stops. All that could still
// matter to an idle lock comes through its router, so nothing overtakes the hand-shake:
//
//	lockIdle   lock -> router   nothing to do; sent once per idle period
//	sweep      timer -> router  lock actors that were idle and unused since the last sweep: mark dying, send tryRetire
//	tryRetire  router -> lock   still idle? stop : lockStays
//	           while dying, the router keeps messages for that name
//	lockStays  lock -> router   route what was kept
//	Terminated lock -> router   forget it, route what was kept: a request spawns a new one
type router struct {
	// fixed at construction
	engine *Engine
	lane   *lane

	// owned by the actor
	slots    map[slotKey]*slot
	byPID    map[string]*slot
	idle     []*slot
	sweeper  clock.Timer // set while a sweep is due
	stage    wait.Stage
	told     wait.Stage   // the engine knows that nothing is left that this stage waits for
	awaited  int          // slots that a Shutdown waits for
	stopped  bool         // protoactor gives it no more messages; the porter knows
	props    *actor.Props // of every lock actor: a set for each would be a tenth of its memory
	spawning *slot        // which one the producer of props is to make; it is called within SpawnNamed
}

type slotKey struct {
	family scripts.Family
	raw    string
}

// slot is a lock actor as its router sees it.
type slot struct {
	address *lease.Address
	pid     *actor.PID
	used    bool // since the last sweep
	dying   bool
	awaited bool  // it was there when draining began
	kept    []any // messages that came while it was dying
}

type (
	lockIdle    struct{ slot *slot }
	lockStays   struct{ slot *slot }
	sweep       struct{}
	closeRouter struct{ stage wait.Stage }
	// news is what the actor of one kind has for those of the same name's other kinds.
	news struct {
		from    *slot
		message any
	}
	cancelByID struct {
		address   *lease.Address
		requester lease.Ref
		id        uint64
	}
)

func newRouter(e *Engine, l *lane) *router {
	return &router{engine: e, lane: l, slots: map[slotKey]*slot{}, byPID: map[string]*slot{}}
}

// Receive is the actor's only entry.
func (r *router) Receive(c actor.Context) {
	defer r.engine.events.RecoverIn("router")
	switch m := c.Message().(type) {
	case *wait.Request, wait.CancelRequest:
		r.route(c, m)
	case lockIdle:
		r.onIdle(c, m.slot)
	case lockStays:
		r.onStays(c, m.slot)
	case news:
		r.onNews(c, m)
	case sweep:
		r.onSweep(c)
	case *actor.Terminated:
		r.onTerminated(c, m.Who)
	case closeRouter:
		r.onClose(c, m)
	case *actor.Stopped:
		r.stopped = true
	case *actor.Started, *actor.Stopping, *actor.Restarting:
	default:
		r.onMessage(c, m)
	}
}

func keyOf(a *lease.Address) slotKey { return slotKey{family: a.Kind.Family, raw: a.Raw} }

// route sends a message to the lock that it is about. Only a request makes a new lock actor: a cancel names an earlier request.
func (r *router) route(c actor.Context, message any) {
	switch m := message.(type) {
	case *wait.Request:
		r.forward(c, m)
	case wait.CancelRequest:
		r.deliver(c, r.slots[keyOf(m.Request.Address)], m)
	case cancelByID:
		r.deliver(c, r.slots[keyOf(m.address)], m)
	}
}

func (r *router) forward(c actor.Context, m *wait.Request) {
	if r.stage >= wait.Closing {
		r.refuse(m)
		return
	}
	key := keyOf(m.Address)
	s := r.slots[key]
	if s == nil {
		s = &slot{address: m.Address}
		r.slots[key] = s
		r.spawn(c, s)
	}
	r.deliver(c, s, m)
}

func (r *router) refuse(m *wait.Request) {
	m.Err = m.Because(protocol.ErrClosed)
	r.engine.answer(m)
}

func (r *router) spawn(c actor.Context, s *slot) {
	if r.props == nil {
		self := c.Self()
		r.props = r.engine.props(func() actor.Actor { return newShell(r, self, r.spawning) })
	}
	r.spawning = s
	key := keyOf(s.address)
	pid, err := c.SpawnNamed(r.props, strconv.Itoa(int(key.family))+":"+key.raw)
	if err != nil {
		// Names are unique as long as this router is the only one to spawn, so this is a bug; the recover reports it.
		delete(r.slots, key)
		panic(fmt.Sprintf("spawning the actor of lock %q: %v", s.address.Name, err))
	}
	s.pid = pid
	r.byPID[pid.Id] = s
	if r.stage == wait.Draining {
		c.Send(pid, wait.Close{Stage: wait.Draining})
	}
}

func (r *router) deliver(c actor.Context, s *slot, m any) {
	switch {
	case s == nil: // nobody waits for that lock
	case s.dying:
		s.kept = append(s.kept, m)
	default:
		s.used = true
		c.Send(s.pid, m)
	}
}

func (r *router) onIdle(c actor.Context, s *slot) {
	s.used = false
	switch r.stage {
	case wait.Draining:
		r.retire(c, s)
		return
	case wait.Closing, wait.Aborting: // it stops by itself
		return
	}
	r.idle = append(r.idle, s)
	if r.sweeper == nil {
		root, self := r.engine.root, c.Self()
		r.sweeper = r.engine.clock.AfterFunc(r.engine.sweepEvery, func() { root.Send(self, sweep{}) })
	}
}

func (r *router) onSweep(c actor.Context) {
	r.sweeper = nil
	before := r.idle
	r.idle = nil
	for _, s := range before {
		if s.used {
			r.onIdle(c, s)
			continue
		}
		r.retire(c, s)
	}
}

// retire asks a lock actor to stop if it is idle. What comes for it meanwhile is kept.
func (r *router) retire(c actor.Context, s *slot) {
	if !s.dying {
		s.dying = true
		c.Send(s.pid, wait.TryRetire{})
	}
}

func (r *router) onStays(c actor.Context, s *slot) {
	s.dying = false
	r.routeKept(c, s)
}

// onNews tells the other actors of a name. One that is dying has nothing that it would need to know about.
func (r *router) onNews(c actor.Context, m news) {
	for family := scripts.Plain; family <= scripts.Latches; family++ {
		if s := r.slots[slotKey{family: family, raw: m.from.address.Raw}]; s != nil && s != m.from && !s.dying {
			c.Send(s.pid, m.message)
		}
	}
}

// routeKept takes the messages that were kept as if they came now.
func (r *router) routeKept(c actor.Context, s *slot) {
	kept := s.kept
	s.kept = nil
	for _, m := range kept {
		r.route(c, m)
	}
}

func (r *router) onTerminated(c actor.Context, pid *actor.PID) {
	s := r.byPID[pid.Id]
	if s == nil {
		return
	}
	delete(r.byPID, pid.Id)
	if s.awaited {
		s.awaited = false
		r.awaited--
	}
	delete(r.slots, keyOf(s.address))
	r.routeKept(c, s)
	r.drained()
}

func (r *router) onClose(c actor.Context, m closeRouter) {
	if m.stage <= r.stage {
		return
	}
	r.stage, r.idle = m.stage, nil
	if r.sweeper != nil {
		r.sweeper.Stop()
		r.sweeper = nil
	}
	for _, s := range r.slots {
		c.Send(s.pid, wait.Close{Stage: m.stage})
		if r.stage == wait.Draining {
			s.awaited = true
			r.awaited++
			r.retire(c, s)
		}
	}
	r.drained()
}

// drained tells the engine when nothing is left that a stage waits for: for a closing router the last lock actor, for a draining one the
// last of those that were there when draining began. Nothing can be held by one that was spawned later.
func (r *router) drained() {
	if r.told < wait.Draining && r.stage >= wait.Draining && r.awaited == 0 {
		r.told = wait.Draining
		r.engine.routerDrained(wait.Draining)
	}
	if r.told < wait.Closing && r.stage >= wait.Closing && len(r.slots) == 0 {
		r.told = wait.Closing
		r.engine.routerDrained(wait.Closing)
	}
}

// sweepEvery is how often idle lock actors are looked for: one that is unused for one to two of these is retired.
const sweepEvery = 250 * time.Millisecond
