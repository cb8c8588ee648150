package actors

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/mailbox"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// registry finds the actor of a name, or provides one. The registry is an object with mutexes, not an actor, so that a request reaches the lock's
// actor without another message.
//
// When an actor has been idle for a while, it loses its name and becomes a spare: a name that has no actor yet gets a spare, or a new actor if there
// is none. A spare that nobody needs is stopped a little later. Some programs use each name only once. For such a program, to start and stop an actor
// for each name took a quarter of the runtime's CPU time.
//
// protoactor drops messages to an actor that has stopped. So the registry counts the messages that are on their way to each actor. It adds a message
// to the count before the message is sent, and subtracts the message after the actor has handled it. The registry also keeps track of whether the
// actor's machine is idle. A shard removes an actor only when the machine is idle and no message is on its way, and an actor stops or gets another
// name only after it has been removed. The shard's mutex guards the count and the removal.
type registry struct {
	engine     *Engine
	shards     [shardCount]shard
	sweepEvery time.Duration // pause between two sweeps; an actor that was not used in between becomes a spare

	spawned atomic.Uint64 // numbers the actors, so that their PIDs are unique
	living  countdown     // actors that have not stopped; reaches zero after Close
	drained countdown     // living actors that a Shutdown waits for
}

// shard has the actors of all names whose hash selects this shard. All actors of a shard use the same lane.
type shard struct {
	registry *registry
	lane     *lane
	props    *actor.Props // shared by all actors of the shard, because a separate copy for each actor would take a tenth of the actor's memory

	mu       sync.Mutex
	members  map[memberKey]*member
	idle     []*member // actors that the next sweep looks at
	spare    []*member // actors without a name; the next sweep stops those that are left then
	sweeper  clock.Timer
	sweeping bool // the sweeper is set
	stage    wait.Stage
	spawning *member // the member whose actor SpawnNamed is starting; the functions in props return its shell and its mailbox
}

type memberKey struct {
	family scripts.Family
	raw    string
}

func keyOf(a *lease.Address) memberKey { return memberKey{a.Kind.Family, a.Raw} }

// member is the registry's entry for an actor. It contains the actor's shell and mailbox, so that all memory that one message touches lies close
// together.
type member struct {
	shard   *shard
	mailbox mailbox.Mailbox
	shell   shell

	// under the shard's mutex
	key     memberKey // of its name, or of its previous name if it is a spare
	coming  int       // messages on their way
	used    bool      // since the last sweep
	idle    bool      // the machine of this actor was idle after the last message
	listed  bool      // the shard's list `idle` contains it
	awaited bool      // a Shutdown waits for it
}

// Send gives the actor a message. It posts straight into the mailbox, because a send to a PID would first have to look up the PID.
func (m *member) Send(message any) { m.mailbox.PostUserMessage(message) }

// routed wraps a message that the registry has counted. Requests are not wrapped: they have the field Routed.
type routed struct{ message any }

const shardCount = 16

func newRegistry(e *Engine) *registry {
	r := &registry{engine: e, sweepEvery: 250 * time.Millisecond}
	r.living.start()
	r.drained.start()
	for i := range r.shards {
		s := &r.shards[i]
		s.registry, s.lane, s.members = r, &e.lanes[i%laneCount], map[memberKey]*member{}
		inbox := actor.WithMailbox(func() actor.Mailbox { return &s.spawning.mailbox })
		s.props = e.props(func() actor.Actor { return &s.spawning.shell }).Configure(inbox)
	}
	return r
}

func (r *registry) shardOf(raw string) *shard { return &r.shards[r.engine.shard(raw)%shardCount] }

// request sends a request to the actor of the lock's name. While the runtime closes, the request is refused.
//
// Timers and context hooks that call Cancel for the request must be set after this call: a cancel that overtakes its request finds nothing to
// cancel, and then nothing ends the wait.
func (r *registry) request(m *wait.Request) {
	if to := r.shardOf(m.Address.Raw).admit(m.Address); to != nil {
		m.Routed = true
		to.Send(m)
		return
	}
	r.engine.refuse(m)
}

// tell sends a message about an earlier request to the actor of a name, if there is one.
func (r *registry) tell(a *lease.Address, message any) {
	if m := r.shardOf(a.Raw).find(keyOf(a)); m != nil {
		m.Send(routed{message})
	}
}

// tellAll sends a message to the actors of a name in all families.
func (r *registry) tellAll(a *lease.Address, message any) {
	r.tell(a, message)
	r.tellOthers(a, message)
}

// tellOthers sends a message to the actors of the same name in the other families.
func (r *registry) tellOthers(a *lease.Address, message any) {
	for family := scripts.Plain; family < scripts.FamilyCount; family++ {
		if family == a.Kind.Family {
			continue
		}
		if m := r.shardOf(a.Raw).find(memberKey{family, a.Raw}); m != nil {
			m.Send(routed{message})
		}
	}
}

// prefixMax limits the length of the prefix that a hook of the user's client may put before a name. If the prefix has prefixMax bytes or more,
// demands do not reach the actors of the name.
const prefixMax = 100

// demanded passes on a demand, that is, the message that another contender wants the lock. A hook of the user's client may have put an unknown prefix
// before the name, so every suffix of the key may be the name. demanded sends the demand to the actors of all these names, and only the actor that
// has the grant reacts.
func (r *registry) demanded(key string, demand wait.Demanded) {
	for prefix := range min(len(key), prefixMax) {
		raw := key[prefix:]
		s := r.shardOf(raw)
		for family := range scripts.FamilyCount {
			if m := s.find(memberKey{family, raw}); m != nil {
				m.Send(routed{demand})
			}
		}
	}
}

// demandsMissed warns all actors that are not idle: they may have a grant, and a demand for it may have been lost.
func (r *registry) demandsMissed() {
	for i := range r.shards {
		for _, m := range r.shards[i].busy() {
			m.Send(routed{wait.DemandsMissed{}})
		}
	}
}

// enter begins a stage of the runtime's end and notifies every actor. When all actors that the stage waits for have stopped, the stage's countdown
// notifies the engine.
func (r *registry) enter(stage wait.Stage) {
	for i := range r.shards {
		members, spare := r.shards[i].enter(stage)
		for _, m := range members {
			m.Send(routed{wait.Close{Stage: stage}})
		}
		for _, m := range spare {
			m.stop()
		}
	}
	switch stage {
	case wait.Draining:
		r.drained.done()
	case wait.Closing:
		r.living.done()
	}
}

// admit finds or provides the actor of a name, and counts the message that the caller sends next. It returns nil while the runtime closes.
func (s *shard) admit(a *lease.Address) *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage >= wait.Closing {
		return nil
	}
	m := s.members[keyOf(a)]
	if m == nil {
		m = s.provide(a)
	}
	m.coming, m.used = m.coming+1, true
	return m
}

// find finds the actor of a name, and counts the message that the caller sends next.
func (s *shard) find(key memberKey) *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[key]
	if m == nil {
		return nil
	}
	m.coming, m.used = m.coming+1, true
	return m
}

// busy finds the actors that are not idle, and counts the message that the caller sends to each of them next.
func (s *shard) busy() (members []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if !m.idle {
			m.coming++
			members = append(members, m)
		}
	}
	return members
}

func (s *shard) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)
}

// provide gives a name an actor: a spare, or a new one. A spare takes over the name when it handles the first request for it.
func (s *shard) provide(a *lease.Address) *member {
	var m *member
	if last := len(s.spare) - 1; last >= 0 {
		m, s.spare = s.spare[last], s.spare[:last]
	} else {
		m = s.spawn(a)
	}
	m.key = keyOf(a)
	s.members[m.key] = m
	return m
}

// spawn starts an actor. SpawnNamed calls the functions in props before it returns, so the shard's mutex guards s.spawning.
func (s *shard) spawn(a *lease.Address) *member {
	r := s.registry
	m := &member{shard: s}
	m.shell.init(r.engine, m, a, s.stage)
	s.spawning = m
	number := strconv.FormatUint(r.spawned.Add(1), 10)
	_, err := r.engine.lockRoot.SpawnNamed(s.props, "holdfast-"+r.engine.id+"/"+number)
	if err != nil {
		panic(err) // impossible: two actors would have the same number
	}
	r.living.add()
	return m
}

func (s *shard) enter(stage wait.Stage) (members, spare []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stage <= s.stage {
		return nil, nil
	}
	spare = s.spare
	s.stage, s.idle, s.spare = stage, nil, nil
	if s.sweeper != nil {
		s.sweeper.Stop()
	}
	for _, m := range s.members {
		if stage == wait.Draining {
			m.awaited = true
			s.registry.drained.add()
		}
		m.coming++
		members = append(members, m)
	}
	return members, spare
}

// handled notes that the actor has handled a message, and whether the actor's machine is idle now. If the machine is idle and no message is on its
// way, handled lists the actor for the next sweep. When the runtime has begun to end, there are no more sweeps. In that case handled removes an
// idle actor at once and returns true, and the caller stops the actor.
func (m *member) handled(counted, idle bool) (removed bool) {
	s := m.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if counted {
		m.coming--
	}
	m.idle = idle
	switch {
	case !idle || m.coming > 0:
	case s.stage > wait.Running:
		delete(s.members, m.key)
		return true
	case !m.listed && s.members[m.key] == m: // not a spare
		s.list(m)
	}
	return false
}

// stop stops an actor that the registry has removed. A message that was not counted may still arrive before the actor stops. The message changes
// nothing, because the machine is idle.
func (m *member) stop() { m.mailbox.PostSystemMessage(&actor.Stop{}) }

// list adds an idle actor to those that the next sweep looks at.
func (s *shard) list(m *member) {
	m.listed = true
	s.idle = append(s.idle, m)
	s.setSweeper()
}

func (s *shard) setSweeper() {
	if s.sweeping {
		return
	}
	if s.sweeping = true; s.sweeper == nil {
		s.sweeper = s.registry.engine.clock.AfterFunc(s.registry.sweepEvery, s.sweep)
	} else {
		s.sweeper.Reset(s.registry.sweepEvery)
	}
}

// sweep makes spares of the actors that have not been used since the last sweep, and stops the earlier spares that are left.
func (s *shard) sweep() {
	for _, m := range s.removeUnused() {
		m.stop()
	}
}

func (s *shard) removeUnused() (unneeded []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.idle
	unneeded, s.idle, s.spare, s.sweeping = s.spare, nil, nil, false
	for _, m := range before {
		m.listed = false
		switch {
		case s.stage > wait.Running || !m.idle || m.coming > 0: // the actor is listed again when it is idle
		case m.used:
			m.used = false
			s.list(m)
		default:
			delete(s.members, m.key)
			s.spare = append(s.spare, m)
		}
	}
	if len(s.spare) > 0 {
		s.setSweeper()
	}
	return unneeded
}

// stopped notes that an actor has stopped.
func (m *member) stopped() {
	m.shard.mu.Lock()
	awaited := m.awaited
	m.shard.mu.Unlock()
	if awaited {
		m.shard.registry.drained.done()
	}
	m.shard.registry.living.done()
}

// refuse answers a request with ErrClosed, because it came after Close.
func (e *Engine) refuse(r *wait.Request) {
	r.Err = r.Because(protocol.ErrClosed)
	e.answer(r)
}

// countdown closes its channel `zero` when the number `left` reaches 0. `start` sets `left` to 1, each call of `add` increases it by one, and each
// call of `done` decreases it by one.
type countdown struct {
	left atomic.Int64
	zero chan struct{}
}

func (c *countdown) start() {
	c.zero = make(chan struct{})
	c.left.Store(1)
}

func (c *countdown) add() { c.left.Add(1) }

func (c *countdown) done() {
	if c.left.Add(-1) == 0 {
		close(c.zero)
	}
}
