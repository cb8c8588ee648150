package actors

import (
	"context"
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
	waiting  []*scriptCall // until it is known where to
	learning bool
	numbered int
	stopped  bool
	group    sync.WaitGroup // of those who ask the servers, and of gateways that stop
}

// opened is the gateway to one master.
type opened struct {
	pid  *actor.PID
	used time.Duration
}

// learned says that the masters are known, or why not.
type learned struct{ err error }

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
		x.onLearned(c, m.err)
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
		x.waiting = append(x.waiting, call)
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
	props := x.engine.props(func() actor.Actor { return newGateway(x.engine, n, x.outlet) })
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

// learn asks who the masters are.
func (x *exchange) learn(c actor.Context) {
	if x.learning {
		return
	}
	x.learning = true
	self := c.Self()
	x.group.Go(func() {
		ctx, cancel := context.WithTimeout(x.engine.ctx, learnWait)
		defer cancel()
		asked := make(chan error, 1)
		x.group.Go(func() { asked <- x.cluster.learn(ctx) })
		select {
		case err := <-asked:
			x.engine.root.Send(self, learned{err})
		case <-ctx.Done(): // go-redis has timeouts of its own
			x.engine.root.Send(self, learned{ctx.Err()})
		}
	})
}

// onLearned sends what has waited, or says why that cannot be done: who wants it will come again.
func (x *exchange) onLearned(c actor.Context, err error) {
	x.learning = false
	waiting := x.waiting
	x.waiting = nil
	for _, call := range waiting {
		if err == nil && !x.stopped {
			x.forward(c, call)
			continue
		}
		call.answerTo(c, result{class: scripts.Refused, err: x.engine.causes.explain(fmt.Errorf("the cluster's masters are not known: %w", err))})
	}
	if err == nil {
		c.Send(x.engine.subscriber, learned{})
	}
}

// stop ends every gateway; done is closed when the last worker has returned from Redis.
func (x *exchange) stop(c actor.Context, done chan struct{}) {
	x.stopped = true
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
