package actors

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/scripts"
)

// gateway packs the script calls of all locks of its lane into pipelines. A call alone leaves at once; while a batch is on its way the
// next one fills. Its worker does the blocking, and posts results straight to the actors that asked.
//
// It keeps its own deadlines, because go-redis does not: a call without an answer at its deadline is answered as unknown, and a
// worker that hangs with it is replaced, up to a bound. It does not interpret results.
//
// go-redis's AutoPipeline was measured beside its pipelines (bench/inner/gateway_test.go) and is as fast. But it sends call by call, which
// end when a goroutine that waits for them says so, it has no deadlines of its own, and nobody can tell the instant just before a call
// is sent, from which a lease counts.
type gateway struct {
	// fixed at construction
	engine *Engine
	node   *node
	outlet
	jobs  chan *batch
	group sync.WaitGroup // of the workers

	// owned by the actor
	waiting []*scriptCall
	flying  []*batch // oldest first
	free    int      // workers with nothing to do
	hanging int      // workers that hang with a batch that was given up
	checkAt time.Duration
	timer   Timer
	stopped bool
	away    bool          // what was sent last did not get through to Redis and back
	heldTo  time.Duration // nothing is sent until then, or until the renewals have been; 0: it is
}

const (
	batchMax   = 256 // calls in one pipeline
	hangingMax = 4   // workers that may hang before nothing more is sent

	silence = 500 * time.Millisecond // after which an answer counts as the end of an outage
)

// scriptCall is one call on its way through the gateway. The sender must not touch it after sending.
type scriptCall struct {
	scripts.Call
	deadline time.Duration // without an answer by then its outcome is unknown
	notAfter time.Duration // when it must not be executed any more; 0: at the deadline
	from     *actor.PID    // gets a *result
	tag      any           // whatever the sender needs to know it again

	answer result // what it is answered with; whoever has claimed it writes it
}

// result answers a scriptCall, exactly once.
type result struct {
	call  *scriptCall // nil until it is answered
	class scripts.Class
	last  bool // nobody but who gets this knows the call any more
	reply any
	err   error
	sent  time.Duration // the instant before it was sent, 0: it was not

	unacked error // enough replicas may not have what was written
}

// batch is one pipeline. Each call in it is answered by whoever claims it first: the worker, or the gateway at its deadline.
type batch struct {
	node   *node
	acked  bool
	ctx    context.Context // ends when nobody waits for its answers any more
	cancel context.CancelFunc
	calls  []*scriptCall
	claims []claim // by call
	given  bool    // all calls were given up; owned by the gateway

	// owned by the worker
	*workspace
	sent    time.Duration
	apart   bool              // no bundles any more
	lost    bool              // no answer came back from Redis, or nobody knows whose
	missing []*scripts.Script // the server did not know them
}

// claim is where a call of a batch is claimed, which must not be touched without.
type claim struct {
	taken    atomic.Bool
	deadline time.Duration // of the call
}

type (
	batchDone    struct{ batch *batch }
	checkBatches struct{}
	// redisBack tells the watchdog that calls get through again; who asks for it is told goOn when the renewals have been answered.
	redisBack   struct{ from *actor.PID }
	goOn        struct{}
	stopGateway struct{ done chan struct{} }
)

func newGateway(e *Engine, n *node, o outlet) *gateway {
	return &gateway{
		engine: e, node: n, outlet: o, jobs: make(chan *batch, 1+hangingMax), checkAt: never,
	}
}

// Receive is the actor's only entry.
func (g *gateway) Receive(c actor.Context) {
	defer g.engine.recoverIn("gateway")
	switch m := c.Message().(type) {
	case *scriptCall:
		g.waiting = append(g.waiting, m)
		g.send(c)
	case batchDone:
		g.onDone(c, m.batch)
		g.send(c)
	case goOn:
		g.heldTo = 0
		g.send(c)
	case checkBatches:
		g.checkAt = never
		g.check(c)
		g.send(c)
	case stopGateway:
		g.stop(m.done)
	case *actor.Started:
		g.hire(c.Self())
	}
}

// hire starts a worker.
func (g *gateway) hire(self *actor.PID) {
	g.free++
	g.group.Go(func() {
		space := &workspace{}
		for b := range g.jobs {
			if b == nil {
				return
			}
			b.workspace = space
			g.engine.run(b)
			b.workspace = nil
			b.cancel()
			// Those whom the results have woken may have another call: let them, so that it goes with the next batch.
			runtime.Gosched()
			g.engine.root.Send(self, batchDone{b})
		}
	})
}

// send fills batches while workers are free.
func (g *gateway) send(c actor.Context) {
	for g.free > 0 && len(g.waiting) > 0 && !g.held() {
		n := min(len(g.waiting), batchMax)
		b := &batch{node: g.node, acked: g.acked, calls: append([]*scriptCall(nil), g.waiting[:n]...), claims: make([]claim, n)}
		for i, call := range b.calls {
			b.claims[i].deadline = call.deadline
		}
		b.ctx, b.cancel = context.WithCancel(g.engine.ctx)
		rest := copy(g.waiting, g.waiting[n:])
		clear(g.waiting[rest:])
		g.waiting = g.waiting[:rest]
		g.flying = append(g.flying, b)
		g.free--
		g.jobs <- b
	}
	g.arm(c)
}

// held reports whether the renewals have to go first, which are not waited for without end.
func (g *gateway) held() bool { return g.heldTo != 0 && g.engine.clock.Now() < g.heldTo }

// arm sets the timer for the earliest deadline. It is not moved later when calls are answered in time, so that a busy gateway
// sets it once per window instead of once per batch.
func (g *gateway) arm(c actor.Context) {
	if g.checkAt != never || (len(g.flying) == 0 && len(g.waiting) == 0) {
		return
	}
	at := never
	for _, b := range g.flying {
		for i := range b.claims {
			if !b.claims[i].taken.Load() {
				at = min(at, b.claims[i].deadline)
			}
		}
	}
	for _, call := range g.waiting {
		at = min(at, call.deadline)
	}
	if at == never {
		return
	}
	g.checkAt = at
	delay := max(at-g.engine.clock.Now(), time.Millisecond)
	if g.timer != nil {
		g.timer.Reset(delay)
		return
	}
	root, self := g.engine.root, c.Self()
	g.timer = g.engine.clock.AfterFunc(delay, func() { root.Send(self, checkBatches{}) })
}

// check answers the calls whose deadline has passed, and replaces workers that hang.
func (g *gateway) check(c actor.Context) {
	if g.stopped {
		return // the timer had fired already; who asked has gone
	}
	now := g.engine.clock.Now()
	for _, b := range slices.Clone(g.flying) {
		open := false
		for i := range b.claims {
			if b.claims[i].deadline > now {
				open = open || !b.claims[i].taken.Load()
				continue
			}
			if b.claims[i].taken.CompareAndSwap(false, true) { // the worker has it still
				g.away = true
				b.calls[i].answerTo(c, result{class: scripts.Unknown, err: g.node.causes.noAnswer()})
			}
		}
		if !open {
			b.cancel() // it may wait for a connection, or retry a handshake
		}
		if !open && g.hanging < hangingMax {
			g.land(b)
			b.given = true
			g.hanging++
			g.hire(c.Self())
		}
	}
	kept := g.waiting[:0]
	for _, call := range g.waiting {
		if call.deadline > now {
			kept = append(kept, call)
			continue
		}
		call.answerTo(c, result{class: scripts.Refused, err: g.node.causes.notSent()})
	}
	clear(g.waiting[len(kept):])
	g.waiting = kept
}

func (g *gateway) onDone(c actor.Context, b *batch) {
	if !g.stopped {
		g.notice(c, b)
	}
	switch {
	case g.stopped:
	case b.given:
		g.hanging--
		g.jobs <- nil // there is one worker too many now
	default:
		g.land(b)
		g.free++
	}
}

func (g *gateway) land(b *batch) {
	g.flying = slices.DeleteFunc(g.flying, func(other *batch) bool { return other == b })
}

// notice looks whether Redis can be reached. When it can be again, everybody who waits for a lock will ask for it at about the same
// time; but leases that could not be renewed meanwhile are running out.
func (g *gateway) notice(c actor.Context, b *batch) {
	now := g.engine.clock.Now()
	back := !b.lost && (g.away || now-b.sent >= silence)
	if g.away = b.lost; !back {
		return
	}
	message := redisBack{}
	if g.polite {
		message.from = c.Self()
		g.heldTo = now + Window(g.engine.policy.Lease)
	}
	c.Send(g.engine.watchdog.self, message)
}

// stop ends the workers; done is closed when the last one has returned from Redis.
func (g *gateway) stop(done chan struct{}) {
	if g.timer != nil {
		g.timer.Stop()
	}
	g.stopped, g.free = true, 0
	close(g.jobs)
	go func() {
		g.group.Wait()
		close(done)
	}()
}
