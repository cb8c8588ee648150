package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// exchange stands where a single server has its gateway, and has one for each master of a cluster: calls to one that does not
// answer keep nobody else waiting. It forwards by the key, and decides nothing.
type exchange struct {
	// fixed at construction
	engine  *Engine
	cluster *cluster
	outlet  outlet

	// owned by the actor
	gateways map[*node]*opened
	waiting  line // until it is known where to
	learning bool
	asking   chan error // brings the answer of the servers; nil: they are not being asked
	failures int        // in a row, to learn it
	pause    Timer      // before the next time
	numbered int
	stopped  bool
	group    sync.WaitGroup // of those who ask the servers, and of gateways that stop
}

// opened is the gateway to one master.
type opened struct {
	pid  *actor.PID
	used time.Duration
}

type (
	// learned says that the masters are known, or why not.
	learned struct {
		err  error
		over bool // the question has been answered, whatever the answer is
	}
	// learnAgain says that it is time to ask for them again.
	learnAgain struct{}
)

var errNoMaster = errors.New("none is said to serve a key")

const (
	learnWait  = 2 * time.Second // for the masters to tell who they are
	unusedWait = time.Minute     // then the gateway of a node that may have left the cluster is closed
)

func newExchange(e *Engine, c *cluster, o outlet) *exchange {
	return &exchange{engine: e, cluster: c, outlet: o, gateways: map[*node]*opened{}}
}

// Receive is the actor's only entry.
func (x *exchange) Receive(c actor.Context) {
	defer x.engine.recoverIn("exchange")
	switch m := c.Message().(type) {
	case *scriptCall:
		x.forward(c, m)
	case learned:
		x.onLearned(c, m)
	case learnAgain:
		x.learning = false
		x.learn(c)
	case stopGateway:
		x.stop(c, m.done)
	}
}

func (x *exchange) forward(c actor.Context, call *scriptCall) {
	if x.stopped {
		call.answerTo(c, result{class: scripts.Refused, err: protocol.ErrClosed})
		return
	}
	n := x.cluster.of(call.Key())
	if n == nil {
		x.waiting.push(call)
		x.learn(c)
		return
	}
	out := x.gateways[n]
	if out == nil {
		var err error
		if out, err = x.open(c, n); err != nil {
			call.answerTo(c, result{class: scripts.Refused, err: err})
			return
		}
	}
	out.used = x.engine.clock.Now()
	c.Send(out.pid, call)
}

// open starts the gateway of a node. Few do so, so it is a time to look for those that have gone.
func (x *exchange) open(c actor.Context, n *node) (*opened, error) {
	x.closeUnused(c)
	n = x.cluster.keep(n)
	x.numbered++
	g := newGateway(x.engine, n, x.outlet)
	g.home = c.Self()
	props := x.engine.props(func() actor.Actor { return g })
	pid, err := c.SpawnNamed(props, fmt.Sprintf("node-%d", x.numbered))
	if err != nil {
		x.cluster.forget(n)
		return nil, err
	}
	out := &opened{pid: pid}
	x.gateways[n] = out
	return out, nil
}

func (x *exchange) closeUnused(c actor.Context) {
	now := x.engine.clock.Now()
	for n, out := range x.gateways {
		if now-out.used < unusedWait {
			continue
		}
		delete(x.gateways, n)
		x.cluster.forget(n)
		done, pid, root := make(chan struct{}), out.pid, x.engine.root
		c.Send(pid, stopGateway{done})
		x.group.Go(func() {
			<-done
			root.Stop(pid)
		})
	}
}

// learn asks who the masters are. One question at a time is on its way: go-redis has timeouts of its own, or none.
func (x *exchange) learn(c actor.Context) {
	if x.learning || x.stopped || x.waiting.len() == 0 {
		return
	}
	x.learning = true
	ctx, cancel := context.WithTimeout(x.engine.ctx, learnWait)
	if x.asking == nil {
		asking := make(chan error, 1)
		x.asking = asking
		x.group.Go(func() { asking <- x.cluster.learn(ctx) })
	}
	self, asking := c.Self(), x.asking
	x.group.Go(func() {
		defer cancel()
		select {
		case err := <-asking:
			x.engine.root.Send(self, learned{err: err, over: true})
		case <-ctx.Done():
			x.engine.root.Send(self, learned{err: ctx.Err()})
		}
	})
}

// onLearned sends what has waited, or says why that cannot be done to those whose time to wait is over.
func (x *exchange) onLearned(c actor.Context, m learned) {
	if m.over {
		x.asking = nil
	}
	err := m.err
	if err == nil {
		for _, call := range x.waiting.all() {
			x.forward(c, call)
		}
		c.Send(x.engine.subscriber, learned{})
		err = errNoMaster // of those that are still there
	}
	for _, call := range x.waiting.sweep(x.engine.clock.Now(), 0) {
		call.answerTo(c, result{class: scripts.Refused, err: x.engine.causes.explain(fmt.Errorf("the cluster's masters are not known: %w", err))})
	}
	if x.waiting.len() == 0 {
		x.learning, x.failures = false, 0
		return
	}
	x.failures++
	root, self := x.engine.root, c.Self()
	x.pause = x.engine.clock.AfterFunc(min(x.engine.policy.backoff(x.failures), x.engine.policy.ProbeMax), func() { root.Send(self, learnAgain{}) })
}

// stop ends every gateway; done is closed when the last worker has returned from Redis.
func (x *exchange) stop(c actor.Context, done chan struct{}) {
	x.stopped = true
	if x.pause != nil {
		x.pause.Stop()
	}
	for _, out := range x.gateways {
		ended := make(chan struct{})
		c.Send(out.pid, stopGateway{ended})
		x.group.Go(func() { <-ended })
	}
	go func() {
		x.group.Wait()
		close(done)
	}()
}
