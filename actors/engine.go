package actors

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/api"
	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/gateway"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/mailbox"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/pubsub"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/actors/watchdog"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Config is what Start needs. The root package has checked it.
type Config struct {
	Seams
	Client     redis.UniversalClient
	System     *actor.ActorSystem // if nil, the engine makes its own
	Policy     wait.Policy        // the fields that the user's options set; Start adds the rest
	PubSub     redisnode.PubSub
	RenewBatch int
	FairWait   time.Duration
	Migrating  bool // a key that holds a string counts as a lock that is held
	NameMapper func(string) string
	Logger     *slog.Logger
	OnEvent    func(protocol.Event)
	Trace      *trace.Trace
	Process    string // announced in Redis, with the version, unless it is ""
	Version    string
}

// Engine consists of the actors of one runtime and the objects that these actors call.
type Engine struct {
	// fixed at construction
	id         string
	system     *actor.ActorSystem
	ownSystem  bool
	root       *actor.RootContext
	lockRoot   *actor.RootContext // spawns the locks' actors
	masters    redisnode.Nodes
	tells      *redisnode.PublishMode
	clock      clock.Clock
	policy     wait.Policy
	spinning   wait.Policy // policy for kinds whose waiters poll; has more frequent gaps, in which other processes may find the lock free
	renewBatch int
	nameMapper func(string) string
	process    string
	version    string
	site       scripts.Site
	serverTime wait.ServerTime // the method value timeAt, made once
	events     *outbox.Events
	recorder   *trace.Recorder
	outbox     *outbox.Outbox
	api        api.API
	workers    *mailbox.Workers
	salt       func() uint64
	shard      func(name string) uint64
	between    func(ctx context.Context)
	causes     *redisnode.Errors
	requests   requestPool
	guards     sync.Pool // of *Guard
	leaks      leaks

	// set while starting
	guardian   *actor.PID
	registry   *registry
	fronts     [frontCount]*actor.PID
	lanes      [laneCount]lane
	sender     *gateway.Sender
	renewals   gateway.Gateway
	subscriber *actor.PID
	watchdog   *watchdog.Watchdog
	announcer  *actor.PID // nil if the process is not announced

	numbers atomic.Uint64 // the last number that Number has returned

	ctx        context.Context // for all calls to Redis; ends when no more calls are needed
	cancel     context.CancelFunc
	background sync.WaitGroup // counts what Close waits for: calls of CheckServer and goroutines that may outlive them, inspects, force-releases

	closing atomic.Bool
	door    sync.RWMutex // locked to set `closing`, read-locked by beginBackground
	end     end
	ending  atomic.Bool   // the engine is stopping its actors; until this is set, a front ignores the message actor.Stop
	stopped chan struct{} // the guardian has stopped
	done    chan struct{} // closed when everything has ended
	left    error         // what Close returns; set before done is closed
}

const (
	// laneCount is the number of lanes. Each gateway of a lane has at most one batch in flight to a server, unless a batch hangs. While the server
	// executes the batch of one lane, the other lane fills its batch, or reads the replies. With more than two lanes, batches would get so small
	// that the cost of a batch outweighs the cost of its calls.
	//
	// All calls of a lock take the same lane, so they rarely overtake each other. A call can still overtake another one, because callers may send
	// their calls themselves, and because a call that was given up may be executed late.
	laneCount = 2
)

// Start starts the actors. It does no I/O.
func Start(c Config) (*Engine, error) {
	c.setDefaults()
	e := &Engine{
		id: c.ID, tells: redisnode.NewPublishMode(c.PubSub), clock: c.Clock, policy: c.Policy.WithTimes(), renewBatch: c.RenewBatch,
		nameMapper: c.NameMapper, process: c.Process, version: c.Version, causes: redisnode.ErrorsOf(c.Client),
		events:  outbox.NewEvents(c.Logger, c.OnEvent),
		workers: mailbox.StartWorkers(), salt: c.Salt, shard: c.Shard, between: c.Between,
		stopped: make(chan struct{}), done: make(chan struct{}),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.recorder = trace.New(e.clock, c.Trace, e.events.Emit)
	if many, ok := c.Client.(*redis.ClusterClient); ok {
		e.masters = redisnode.NewCluster(many, e.tells, replyWait(&e.policy))
	} else {
		e.masters, e.policy.Standalone = redisnode.NewSingle(c.Client, replyWait(&e.policy)), true
	}
	e.site = scripts.Site{
		Runtime: c.ID, Publish: e.masters.PublishCommand(), Lease: c.Policy.Lease, FairWait: c.FairWait, Tokens: c.Policy.HandoffMax, Migrating: c.Migrating,
	}
	e.policy.Runtime, e.policy.NewID = c.ID, e.newGrantID
	e.policy.Serial = e.Number
	e.policy.Jitter = c.Jitter
	e.policy.ServerTime = e.masters.Time
	e.policy.Why = e.why
	e.serverTime = e.timeAt
	e.spinning = e.policy
	e.spinning.GapEvery = e.policy.GapEvery / 10
	e.numbers.Store(c.First)
	e.end.init()
	if e.system = c.System; e.system == nil {
		e.ownSystem = true
		e.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
			return slog.New(slog.DiscardHandler) // protoactor's log is dropped: what matters is reported as events
		}), actor.WithDeadLetterThrottleInterval(time.Millisecond)) // the throttle's goroutine outlives Close by one interval
	}
	e.root = actor.NewRootContext(e.system, nil) // not the system's own root context, which has the user's middleware and guardian
	e.lockRoot = actor.NewRootContext(e.system, nil).WithGuardian(resume)
	e.outbox = outbox.New(e.clock, e.root, e.events)
	e.api = api.API{Config: api.Config{
		System: e.system, Events: e.events, Outbox: e.outbox, Runtime: e.id, Address: e.addressApart, Time: e.Time, Now: e.clock.Now,
	}}
	e.sender = gateway.NewSender(gateway.Config{
		Ctx: e.ctx, Clock: e.clock, Events: e.events, Recorder: e.recorder, Nodes: e.masters, Errors: e.causes, Lease: e.policy.Lease,
		AckReplicas: e.policy.AckReplicas, AckTimeout: e.policy.AckTimeout, FirstMark: c.First, Pause: e.policy.Pause,
		OnDiscovered: func() { e.root.Send(e.subscriber, pubsub.FollowSlots{}) },
	})
	e.registry = newRegistry(e)
	if err := e.spawn(); err != nil {
		if e.watchdog != nil {
			e.watchdog.Stop()
		}
		e.workers.Stop()
		return nil, err
	}
	return e, nil
}

// spawn starts the guardian and waits until the guardian has started the other actors.
func (e *Engine) spawn() error {
	started := make(chan error, 1)
	props := e.props(func() actor.Actor { return &guardian{engine: e, started: started} })
	var err error
	if e.guardian, err = e.root.SpawnNamed(props, "holdfast-"+e.id); err != nil {
		return fmt.Errorf("starting the guardian: %w", err)
	}
	return <-started
}

// resume lets an actor continue after a panic, without a restart. All engines share this one strategy, because an actor system makes a guardian for
// each strategy and keeps it.
var resume = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.ResumeDirective })

// props returns the properties that all actors of this engine share. An idle actor handles the first few messages on the goroutine of their sender,
// and the rest on a worker. A panic neither stops nor restarts an actor.
func (e *Engine) props(producer actor.Producer) *actor.Props {
	return actor.PropsFromProducer(producer, actor.WithMailbox(mailbox.New), actor.WithDispatcher(e.workers), actor.WithSupervisor(resume))
}

// guardian is the parent of all other actors except those of the locks.
type guardian struct {
	engine  *Engine
	started chan error
}

// Receive is the actor's only entry.
func (g *guardian) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		g.started <- g.spawn(c)
	case *actor.Stopped:
		close(g.engine.stopped)
	}
}

func (g *guardian) spawn(c actor.Context) error {
	e := g.engine
	var errs []error
	child := func(name string, a actor.Actor, special ...actor.PropsOption) *actor.PID {
		pid, err := c.SpawnNamed(e.props(func() actor.Actor { return a }).Configure(special...), name)
		errs = append(errs, err)
		return pid
	}
	e.subscriber = child("subscriber", pubsub.New(e.pubSub()))
	e.openLanes()
	var err error
	if e.watchdog, err = watchdog.New(e.watchdogConfig()); err != nil {
		return err
	}
	e.watchdog.Self = child("watchdog", e.watchdog)
	e.sender.Renewer = e.watchdog
	if e.policy.Linger > 0 {
		child("demand", &demand{engine: e})
	}
	if e.process != "" {
		e.announcer = child("announcer", &announcer{engine: e, name: e.process, version: e.version})
	}
	for i := range e.fronts {
		f := &front{engine: e}
		guarded := actor.WithMailbox(func() actor.Mailbox { return &porterMailbox{front: f} })
		e.fronts[i] = child(fmt.Sprintf("front-%02d", i), f, guarded)
	}
	return errors.Join(errs...)
}

func (e *Engine) watchdogConfig() watchdog.Config {
	return watchdog.Config{
		Clock: e.clock, Root: e.root, Events: e.events, Recorder: e.recorder, Site: &e.site, Gateway: e.renewals,
		Lease: e.policy.Lease, Batch: e.renewBatch, Jitter: e.policy.Jitter, Nudged: e.noticeLeaks,
	}
}

// lane has the gateways for the calls of some of the locks. The name of a lock decides which lane the lock uses.
type lane struct {
	gateway  gateway.Gateway
	acquires gateway.Gateway // the gateway for acquires: a separate one if acquires wait for replicas, else the same as gateway
}

// outlet returns the gateway for a call.
func (l *lane) outlet(call *rpc.Call) gateway.Gateway {
	if call.Acquires {
		return l.acquires
	}
	return l.gateway
}

// openLanes starts the gateways.
func (e *Engine) openLanes() {
	for i := range e.lanes {
		l := &e.lanes[i]
		l.gateway = gateway.New(e.sender, gateway.Options{RenewalsFirst: true})
		l.acquires = l.gateway
		if e.policy.AckReplicas > 0 { // releases must not wait behind acquires that wait for replicas
			l.acquires = gateway.New(e.sender, gateway.Options{RenewalsFirst: true, ForReplicas: true})
		}
	}
	e.renewals = gateway.New(e.sender, gateway.Options{})
}

func (e *Engine) pubSub() pubsub.Config {
	c := pubsub.Config{
		Ctx: e.ctx, Clock: e.clock, Root: e.root, Events: e.events, Recorder: e.recorder, Nodes: e.masters, Publish: e.tells, Errors: e.causes, Backoff: e.policy.Backoff,
	}
	if e.policy.Linger > 0 {
		c.Demand = scripts.DemandChannel(e.id)
	}
	if e.policy.Standalone {
		c.Own = func() (string, error) { // the channel is named like the channel of a lock, because the Redis user may have no right to other channels
			address, err := e.Address(scripts.Lock, "holdfast-link-"+e.id)
			return scripts.LockChannel(address.Raw), err
		}
	}
	return c
}

// why returns the error that says that no server has answered a call about a key yet. The error wraps the last known cause, if one is known.
func (e *Engine) why(raw string) error {
	if n := e.masters.ForKey(raw); n != nil {
		return n.Errors.WithLast(rpc.ErrNoAnswerYet)
	}
	return e.causes.WithLast(rpc.ErrNoAnswerYet)
}

// timeAt converts an instant of this process to the time of the server that decides about a key.
func (e *Engine) timeAt(raw string, instant time.Duration) (ms int64, known bool) {
	n := e.masters.ForKey(raw)
	if n == nil || !n.Clock.Known() {
		return 0, false
	}
	return n.Clock.Time(instant).Milliseconds(), true
}

// Number returns a number that this runtime has not used before.
func (e *Engine) Number() uint64 { return e.numbers.Add(1) }

// saltBits is the number of bits in a grant's number (newGrantID) that are lower than the counter. These are the random bits and the last bit.
const saltBits = 24

// newGrantID makes the id of a grant. Its number has three parts:
//
//   - A counter, so that this runtime never makes the same id twice.
//   - Random bits from the operating system. When a snapshot of a virtual machine is resumed twice, both copies of the process have the
//     same UUID and continue from the same count. Without these bits, Redis would take the grant of one copy for a repeat of the other's.
//   - The last bit, which is 1 if Options.Linger is set. It asks other processes to notify this runtime when they want the lock
//     (scripts/lib/demand.lua).
func (e *Engine) newGrantID() string {
	number := e.Number()<<saltBits&math.MaxInt64 | e.salt()&(1<<saltBits-1)&^1 // positive, as the thread ids of Redisson are
	if e.policy.Linger > 0 {
		number++
	}
	id := append(append(make([]byte, 0, 64), e.id...), ':')
	return string(strconv.AppendUint(id, number, 10))
}

// salt returns random bits from the operating system.
func salt() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:saltBits/8]) // never fails, by its documentation
	return binary.LittleEndian.Uint64(b[:])
}

// ID returns the runtime's UUID.
func (e *Engine) ID() string { return e.id }

// System returns the actor system that the engine runs in.
func (e *Engine) System() *actor.ActorSystem { return e.system }

// Site returns the parameters that the calls of this runtime have in common.
func (e *Engine) Site() *scripts.Site { return &e.site }

// Lease returns the length of the leases that the watchdog renews.
func (e *Engine) Lease() time.Duration { return e.policy.Lease }

// Now returns the present instant of the engine's clock.
func (e *Engine) Now() time.Duration { return e.clock.Now() }

// Time converts an instant of the engine's clock to a time.Time with a monotonic reading. The result is time.Now plus the time that is left until
// the instant. Adding a constant to the instant would be wrong, because a suspension changes the difference between the engine's clock and Go's
// monotonic clock. Time calls time.Now first and reads the engine's clock second. So if the process pauses between the two, the result is too early,
// never too late.
func (e *Engine) Time(instant time.Duration) time.Time {
	present := time.Now()
	return present.Add(instant - e.clock.Now())
}

// Address checks a name and finds its key. The address carries the name even if there is an error.
func (e *Engine) Address(kind *scripts.Kind, name string) (lease.Address, error) {
	a := lease.Address{Kind: kind, Name: name, Raw: name}
	err := protocol.CheckName(name)
	if err == nil && e.nameMapper != nil {
		if a.Raw, err = e.mapName(name); err == nil {
			if err = protocol.CheckName(a.Raw); err != nil {
				err = fmt.Errorf("the name mapper's %w", err)
			}
		}
	}
	if err == nil {
		a.Part = e.masters.Part(a.Raw)
	}
	return a, err
}

// mapName calls the user's name mapper. If the name mapper panics, mapName recovers the panic and returns an error. On the goroutine that
// addressApart starts, a panic that nobody recovers would end the process.
func (e *Engine) mapName(name string) (raw string, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w name: the name mapper panicked: %v", protocol.ErrInvalid, value)
		}
	}()
	return e.nameMapper(name), nil
}

// addressApart is Address for a caller that is an actor. A name mapper may end the goroutine that it runs on (runtime.Goexit, as t.FailNow does).
// An actor whose goroutine ends in this way would never handle another message. So addressApart calls the name mapper on a new goroutine.
func (e *Engine) addressApart(kind *scripts.Kind, name string) (lease.Address, error) {
	if e.nameMapper == nil {
		return e.Address(kind, name)
	}
	a, err := lease.Address{Kind: kind, Name: name, Raw: name}, errMapperExited
	mapped := make(chan struct{})
	go func() {
		defer close(mapped)
		a, err = e.Address(kind, name)
	}()
	<-mapped
	return a, err
}

var errMapperExited = fmt.Errorf("%w name: the name mapper ended its goroutine", protocol.ErrInvalid)

// replyWait returns the time limit for writing one pipeline to a connection, and for reading its replies. When a call's window (rpc.Window) has
// passed, the gateway gives up the call and replaces the worker that has sent it. The replaced worker hangs until the time limit has passed. While
// StuckMax (4) replaced workers hang, the gateway replaces no more. So the time limit is StuckMax windows: the first replaced worker then returns
// before a fifth worker would have to be replaced.
//
// The limit is at least redisnode.Silence (500 ms), so that a brief pause of the server does not close all connections. With a lease under 375 ms,
// this is longer than StuckMax windows, so all workers may hang until the limit has passed. If replicas must acknowledge acquires, AckTimeout is
// added to the limit. The limit is never more than redisnode.ReplyWait.
func replyWait(p *wait.Policy) time.Duration {
	wait := max(gateway.StuckMax*rpc.Window(p.Lease), redisnode.Silence)
	if p.AckReplicas > 0 {
		wait += p.AckTimeout
	}
	return min(wait, redisnode.ReplyWait)
}
