package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// clusterGateway has a gateway for each master of a cluster, so that calls to a master that does not answer keep no others waiting. It
// forwards by the key, and decides nothing.
type clusterGateway struct {
	// fixed at construction
	sender  *Sender
	cluster *redisnode.Cluster
	options Options

	// owned by the actor
	gateways map[*redisnode.Node]*nodeGateway
	waiting  line // until it is known where to
	learning bool
	failures int         // in a row, to learn it
	pause    clock.Timer // before the next time
	numbered int
	stopped  bool
	group    sync.WaitGroup // of those who ask the servers, and of gateways that stop
}

// nodeGateway is the gateway to one master.
type nodeGateway struct {
	pid  *actor.PID
	used time.Duration
}

type (
	// discovered says that the masters are known, or why not.
	discovered struct{ err error }
	// learnAgain says that it is time to ask for them again.
	learnAgain struct{}
)

const (
	unusedWait = time.Minute // then the gateway of a node that may have left the cluster is closed
)

func newClusterGateway(s *Sender, c *redisnode.Cluster, o Options) *clusterGateway {
	return &clusterGateway{sender: s, cluster: c, options: o, gateways: map[*redisnode.Node]*nodeGateway{}}
}

// Receive is the actor's only entry.
func (x *clusterGateway) Receive(c actor.Context) {
	defer x.sender.Events.RecoverIn("exchange")
	switch m := c.Message().(type) {
	case *rpc.Call:
		x.forward(c, m)
	case discovered:
		x.onLearned(c, m)
	case learnAgain:
		x.learning = false
		x.learn(c)
	case Stop:
		x.stop(c, m.Done)
	}
}

func (x *clusterGateway) forward(c actor.Context, call *rpc.Call) {
	if x.stopped {
		answer(c, call, rpc.Result{Class: scripts.Refused, Err: protocol.ErrClosed})
		return
	}
	n := x.cluster.ForKey(call.Key())
	if n == nil {
		x.waiting.push(call)
		x.learn(c)
		return
	}
	out := x.gateways[n]
	if out == nil {
		var err error
		if out, err = x.open(c, n); err != nil {
			answer(c, call, rpc.Result{Class: scripts.Refused, Err: err})
			return
		}
	}
	out.used = x.sender.Clock.Now()
	c.Send(out.pid, call)
}

// open starts the gateway of a node. Few do so, so it is a time to look for those that have gone.
func (x *clusterGateway) open(c actor.Context, n *redisnode.Node) (*nodeGateway, error) {
	x.closeUnused(c)
	n = x.cluster.Keep(n)
	x.numbered++
	g := newGateway(x.sender, n, x.options)
	g.home = c.Self()
	props := x.sender.Props(func() actor.Actor { return g })
	pid, err := c.SpawnNamed(props, fmt.Sprintf("node-%d", x.numbered))
	if err != nil {
		x.cluster.Forget(n)
		return nil, err
	}
	out := &nodeGateway{pid: pid}
	x.gateways[n] = out
	return out, nil
}

func (x *clusterGateway) closeUnused(c actor.Context) {
	now := x.sender.Clock.Now()
	for n, out := range x.gateways {
		if now-out.used < unusedWait {
			continue
		}
		delete(x.gateways, n)
		x.cluster.Forget(n)
		done, pid, root := make(chan struct{}), out.pid, x.sender.Root
		c.Send(pid, Stop{Done: done})
		x.group.Go(func() {
			<-done
			root.Stop(pid)
		})
	}
}

// learn asks who the masters are.
func (x *clusterGateway) learn(c actor.Context) {
	if x.learning || x.stopped || x.waiting.len() == 0 {
		return
	}
	x.learning = true
	self := c.Self()
	x.group.Go(func() {
		ctx, cancel := context.WithTimeout(x.sender.Ctx, redisnode.DiscoverWait)
		defer cancel()
		x.sender.Root.Send(self, discovered{x.cluster.Discover(ctx)})
	})
}

// onLearned sends what has waited, or says why that cannot be done to those whose time to wait is over.
func (x *clusterGateway) onLearned(c actor.Context, m discovered) {
	err := m.err
	if err == nil {
		for _, call := range x.waiting.all() {
			x.forward(c, call)
		}
		x.sender.OnDiscovered()
		err = redisnode.ErrNoMaster // of those that are still there
	}
	for _, call := range x.waiting.sweep(x.sender.Clock.Now(), 0) {
		answer(c, call, rpc.Result{Class: scripts.Refused, Err: x.sender.Errors.Explain(fmt.Errorf("the cluster's masters are not known: %w", err))})
	}
	if x.waiting.len() == 0 {
		x.learning, x.failures = false, 0
		return
	}
	x.failures++
	root, self := x.sender.Root, c.Self()
	x.pause = x.sender.Clock.AfterFunc(x.sender.Pause(x.failures), func() { root.Send(self, learnAgain{}) })
}

// stop ends every gateway; done is closed when the last worker has returned from Redis.
func (x *clusterGateway) stop(c actor.Context, done chan struct{}) {
	x.stopped = true
	if x.pause != nil {
		x.pause.Stop()
	}
	for _, out := range x.gateways {
		ended := make(chan struct{})
		c.Send(out.pid, Stop{Done: ended})
		x.group.Go(func() { <-ended })
	}
	go func() {
		x.group.Wait()
		close(done)
	}()
}
