package gateway

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/scripts"
)

// Gateway takes script calls and answers each exactly once, unless the call is withdrawn, or the gateway stops first. It may be used from any
// goroutine. Only Run blocks.
type Gateway interface {
	// Submit takes a call. Its result is posted to the actor that made it, maybe before Submit returns.
	Submit(call *rpc.Call)
	// Run is Submit for a goroutine that waits for the result anyway: an idle gateway sends the call on that goroutine. If Redis does not
	// answer, Run returns within twice redisnode.Silence. A hook of the client can block Run for longer.
	Run(call *rpc.Call)
	// Resume ends the pause of this gateway after an outage. The watchdog calls Resume when the renewals have been answered; see Recovered.
	Resume()
	// Stop ends the gateway. The returned channel is closed when the last worker has returned from Redis. Calls that are still in line may stay
	// unanswered.
	Stop() (done <-chan struct{})
}

// Options say what a gateway is for.
type Options struct {
	RenewalsFirst bool // after an outage the gateway waits until the renewals have been answered
	ForReplicas   bool // replicas must acknowledge the grants of this gateway's calls
}

// New starts a gateway. On a cluster, the gateway only forwards calls: it starts a further gateway for each master.
func New(s *Sender, o Options) Gateway {
	if cluster, ok := s.Nodes.(*redisnode.Cluster); ok {
		return newClusterGateway(s, cluster, o)
	}
	g := newGateway(s, s.Nodes.ForKey(""), o)
	g.startWorker()
	return g
}

// gateway packs script calls into pipelines. A single call is sent at once; while a batch is in flight, the next one fills. The workers of
// the gateway block in go-redis, and post results straight to the actors that made the calls.
//
// The gateway is an object with a mutex and not an actor, so that a call costs no message. While a goroutine holds the mutex, it sends no message:
// messages wait in `outgoing`. Sending under the mutex could deadlock: a mailbox may run the receiving actor on the goroutine of the sender, and that
// actor may submit its next call, which needs the mutex.
//
// The gateway enforces the deadlines of calls itself, because go-redis does not. A call without a reply at its deadline is answered with an unknown
// outcome. A worker that hangs with such a call is replaced, unless StuckMax workers hang already. The gateway does not interpret results, except to
// see whether Redis serves at all. While Redis does not serve, all calls except renewals stay in line, and only a probe is sent now and then
// (outage.go). So the cost of an outage does not depend on how many calls wait.
//
// The gateway uses go-redis's plain pipelines, not its AutoPipeline. AutoPipeline is as fast (bench/inner/gateway_test.go), but a goroutine must wait
// for each result. AutoPipeline has no deadlines of its own. It also does not reveal when it sends a call, but a lease counts from the instant just
// before its call is sent.
type gateway struct {
	// fixed at construction
	sender  *Sender
	node    *redisnode.Node
	cluster *clusterGateway // takes calls back when this node is no longer their master; nil without a cluster
	options Options
	jobs    chan *batch
	group   sync.WaitGroup // waits for the workers, and for the goroutines that follow redirections

	mu       sync.Mutex
	outgoing []message // to be sent when mu is free
	waiting  line
	inFlight []*batch         // oldest first
	free     int              // idle workers
	stuck    int              // workers that hang with a batch whose calls have all been answered
	away     map[string]*road // batches of redirected calls, by the address to which their calls were first redirected
	checkAt  time.Duration
	timer    clock.Timer
	unused   []leash // contexts of batches that have ended
	stopped  bool
	outage   outage
	spare    *scratch // memory for the next batch that a caller of Run sends; nil if none is free
}

const (
	batchMax = 256 // calls in one pipeline
	awayMax  = 64  // goroutines that follow redirections to one address
	StuckMax = 4   // at most this many hanging workers are replaced; if one more hangs, no batch is sent until one of them returns
)

// message waits to be sent when the mutex is free. Usually the receiver is an actor, and the content is its message. There are two other cases. If
// the content is a *rpc.Call, another master decides about the call, and the clusterGateway receives it. If the content is a *batch, the receiver is
// a `caller`, which sends the batch to Redis.
type message struct {
	to      rpc.Caller
	content any
}

func newGateway(s *Sender, n *redisnode.Node, o Options) *gateway {
	return &gateway{
		sender: s, node: n, options: o, jobs: make(chan *batch, 1+StuckMax), checkAt: clock.Never, away: map[string]*road{},
	}
}

// Submit takes a call.
func (g *gateway) Submit(call *rpc.Call) { g.deliver(g.take(call, false)) }

// Run takes a call of a goroutine that waits for the result. If the gateway is idle, the goroutine sends the call itself. This takes less CPU time
// than to wake a worker for the call, and then to wake the goroutine for the result.
//
// If a caller sends a batch itself, the gateway gives the batch up after redisnode.Silence at the latest, and each read from the connection takes at
// most redisnode.Silence (Node.Hasty). In all other respects the batch is like one that a worker sends. Without these limits the caller could be held
// up for longer: go-redis does not interrupt a read when the context of the caller ends, or when the gateway gives the call up. If a read has begun
// when the batch is given up, the caller waits up to redisnode.Silence more.
func (g *gateway) Run(call *rpc.Call) { g.deliver(g.take(call, true)) }

// take puts a call in line, or makes a batch of it for the caller of Run. It returns the messages that are to be sent when the mutex is free.
func (g *gateway) take(call *rpc.Call, run bool) []message {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !run || !g.letCallerRun(call) {
		g.waiting.push(call)
	}
	return g.advance()
}

// A caller may send its call itself only if the last answer of Redis is younger than heardWithin. If it is older, a worker sends the call, because
// the server may have become silent, and would hold up the caller.
const heardWithin = time.Second

// letCallerRun decides whether the goroutine that submits a call may send it. It may only if a worker is idle, no other call waits, Redis serves, and
// no replicas must acknowledge. Then letCallerRun makes a batch of the call and returns true. The call must then not be put in line.
func (g *gateway) letCallerRun(call *rpc.Call) bool {
	now, o := g.sender.Clock.Now(), &g.outage
	serves := o.vain == 0 && now >= o.pausedUntil && o.heard > 0 && now-o.heard < heardWithin
	if g.free == 0 || g.waiting.len() > 0 || !serves || g.node.Hasty == nil || g.options.ForReplicas || !call.Leave(now, o.heard) {
		return false
	}
	b := g.batchOf([]*rpc.Call{call}, now)
	b.hasty, b.due = true, min(b.due, now+redisnode.Silence)
	b.claims[0].deadline = b.due
	b.scratch, g.spare = g.spare, nil
	if b.scratch == nil {
		b.scratch = &scratch{}
	}
	g.group.Add(1)
	g.outgoing = append(g.outgoing, message{caller{g}, b})
	return true
}

// caller is the receiver of a batch that the caller of Run sends: the goroutine that delivers the message sends the batch to Redis.
type caller struct{ *gateway }

// Send sends the batch.
func (c caller) Send(content any) {
	b := content.(*batch)
	defer c.group.Done()
	defer c.locked(func() {
		c.spare, b.scratch = b.scratch, nil
		c.onDone(b)
	})
	c.sender.run(b)
}

// Resume ends the pause after an outage.
func (g *gateway) Resume() {
	g.locked(func() { g.outage.pausedUntil = 0 })
}

// locked holds the mutex while it calls the function `change` and fills batches (see advance). Then it sends the messages in `outgoing`.
func (g *gateway) locked(change func()) {
	defer g.sender.Events.RecoverIn("gateway")
	g.deliver(func() []message {
		g.mu.Lock()
		defer g.mu.Unlock()
		change()
		return g.advance()
	}())
}

// deliver sends messages. The mutex must be free.
func (g *gateway) deliver(messages []message) {
	for _, m := range messages {
		if call, stray := m.content.(*rpc.Call); stray {
			g.cluster.Submit(call)
		} else {
			m.to.Send(m.content)
		}
	}
}

// answer queues the result of a call. The caller must have claimed the call.
func (g *gateway) answer(call *rpc.Call, r rpc.Result) {
	g.outgoing = append(g.outgoing, message{call.From, call.Answer(r)})
}

// startWorker starts a worker, which sends one batch after the other.
func (g *gateway) startWorker() {
	g.free++
	g.group.Go(g.work)
}

// work sends batches until the gateway stops, or until there is one worker too many. If a hook of the client ends the goroutine, another one takes
// over.
func (g *gateway) work() {
	var b *batch
	defer func() {
		if b != nil {
			g.group.Go(g.work)
			g.locked(func() { g.onDone(b) })
		}
	}()
	space := &scratch{}
	for b = range g.jobs {
		if b == nil {
			return
		}
		b.scratch = space
		g.sender.run(b)
		b.scratch = nil
		// Let the actors that have got results run first: they may make further calls, which then go with the next batch.
		runtime.Gosched()
		g.locked(func() { g.onDone(b) })
		b = nil
	}
}

// advance fills batches while workers are free. It returns the messages that are to be sent when the mutex is free.
func (g *gateway) advance() []message {
	if g.cluster != nil {
		g.returnStrays(g.sender.Clock.Now())
	}
	for g.free > 0 && g.waiting.len() > 0 {
		b := g.next(g.sender.Clock.Now())
		if b == nil {
			break
		}
		g.jobs <- b
	}
	g.arm()
	messages := g.outgoing
	g.outgoing = nil
	return messages
}

// next takes a batch from the line, for an idle worker. It returns nil if nothing may be sent now.
func (g *gateway) next(now time.Duration) *batch {
	calls := g.waiting.pop(g.room(now), now, g.outage.heard)
	if len(calls) == 0 {
		return nil
	}
	return g.batchOf(calls, now)
}

// batchOf makes a batch of calls that are sent now.
func (g *gateway) batchOf(calls []*rpc.Call, now time.Duration) *batch {
	b := &batch{node: g.node, acked: g.options.ForReplicas, calls: calls, claims: make([]claim, len(calls)), begun: now, due: clock.Never}
	if n := len(g.unused); n > 0 {
		b.leash, g.unused = g.unused[n-1], g.unused[:n-1]
	} else {
		b.ctx, b.cancel = context.WithCancel(g.sender.Ctx)
	}
	if g.cluster != nil {
		b.home = g
	}
	for i, call := range calls {
		b.claims[i].deadline = call.Deadline
		b.due = min(b.due, call.Deadline)
	}
	g.inFlight = append(g.inFlight, b)
	g.free--
	return b
}

// arm sets the timer to the next instant at which something is due. It never postpones the timer, even if the calls for which the timer was set have
// been answered. So a busy gateway sets the timer once per reply timeout, instead of once per batch.
func (g *gateway) arm() {
	if g.stopped {
		return
	}
	at := clock.Never
	for _, b := range g.inFlight {
		at = min(at, b.due)
	}
	if g.waiting.len() > 0 {
		at = min(at, g.waiting.sweepAt)
		if g.free > 0 { // a worker is idle, but it is too early to send
			at = min(at, g.outage.opensAt())
		}
		if g.cluster != nil {
			at = min(at, max(g.outage.lookAt, g.doubtedAt()))
		}
	}
	if at >= g.checkAt {
		return
	}
	g.checkAt = at
	delay := max(at-g.sender.Clock.Now(), time.Millisecond)
	if g.timer != nil {
		g.timer.Reset(delay)
		return
	}
	g.timer = g.sender.Clock.AfterFunc(delay, func() { g.locked(g.check) })
}

// check answers calls whose deadline has passed, and calls that have waited in line for too long. It also replaces workers that hang.
func (g *gateway) check() {
	g.checkAt = clock.Never
	if g.stopped {
		return // the timer had fired already
	}
	now := g.sender.Clock.Now()
	for _, b := range slices.Clone(g.inFlight) {
		if b.due <= now {
			g.giveUp(b, now)
		}
	}
	if now < g.waiting.sweepAt {
		return
	}
	for _, call := range g.waiting.sweep(now, g.outage.heard) {
		g.answer(call, rpc.Result{Class: scripts.Refused, Err: g.node.Errors.NotSent()})
	}
}

// giveUp answers those calls of a batch whose deadlines have passed. When every call of the batch is answered, giveUp also starts a new worker,
// because the worker of the batch hangs. It starts none if StuckMax workers hang already.
func (g *gateway) giveUp(b *batch, now time.Duration) {
	b.due = clock.Never
	for i := range b.claims {
		if b.claims[i].taken.Load() {
			continue
		}
		if b.claims[i].deadline > now {
			b.due = min(b.due, b.claims[i].deadline)
			continue
		}
		if b.claims[i].taken.CompareAndSwap(false, true) { // the worker has not answered it
			silent := g.sender.Errors
			if !b.away {
				g.inVain(b, now, true)
				silent = g.node.Errors
			}
			g.answer(b.calls[i], rpc.Result{Class: scripts.Unknown, Err: silent.NoAnswer()})
		}
	}
	if b.due != clock.Never {
		return
	}
	b.cancel() // the worker may be waiting for a connection, or retrying a handshake
	if b.away {
		g.remove(b) // it occupies no worker
		return
	}
	if g.stuck == StuckMax {
		b.due = now + redisnode.Silence // no worker can be replaced until a hanging one has returned, so check again later
		return
	}
	g.remove(b)
	b.given = true
	g.stuck++
	g.startWorker()
}

func (g *gateway) onDone(b *batch) {
	if !g.stopped {
		g.detectRecovery(b)
	}
	switch {
	case g.stopped:
		b.cancel()
	case b.given:
		g.stuck--
		g.jobs <- nil // ends one worker, because there is one too many
	default:
		g.remove(b)
		g.free++
		if b.ctx.Err() == nil {
			g.unused = append(g.unused, b.leash)
		}
	}
}

// idle reports whether no calls wait or are in flight.
func (g *gateway) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting.len() == 0 && len(g.inFlight) == 0
}

func (g *gateway) remove(b *batch) {
	g.inFlight = slices.DeleteFunc(g.inFlight, func(other *batch) bool { return other == b })
}

// Stop ends the workers.
func (g *gateway) Stop() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
	g.stopped, g.free = true, 0
	close(g.jobs)
	for _, l := range g.unused {
		l.cancel()
	}
	done := make(chan struct{})
	go func() {
		g.group.Wait()
		close(done)
	}()
	return done
}
