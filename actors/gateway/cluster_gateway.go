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

// clusterGateway has a gateway for each master of a cluster, so that calls to a silent master do not delay others. It forwards each call by
// its key, and decides nothing else.
type clusterGateway struct {
	// fixed at construction
	sender  *Sender
	cluster *redisnode.Cluster
	options Options

	// owned by the actor
	gateways map[*redisnode.Node]*nodeGateway
	waiting  line // calls whose master is not known yet
	learning bool
	failures int         // of the discovery, in a row
	pause    clock.Timer // before the next discovery
	numbered int
	stopped  bool
	group    sync.WaitGroup // goroutines that ask the servers, and gateways that stop
}

// nodeGateway is the gateway to one master.
type nodeGateway struct {
	pid  *actor.PID
	used time.Duration
}

type (
	// discovered says that the masters are known, or why they are not.
	discovered struct{ err error }
	// learnAgain says that it is time for the next discovery.
	learnAgain struct{}
)

const (
	unusedWait = time.Minute // after which the gateway of a node that may have left the cluster is closed
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

// open starts the gateway of a node. That is rare, so it also closes the gateways of nodes that have left the cluster.
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

// learn discovers the masters.
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

// onLearned sends the calls that have waited. If the masters are still unknown, it refuses the calls whose time to wait is over.
func (x *clusterGateway) onLearned(c actor.Context, m discovered) {
	err := m.err
	if err == nil {
		for _, call := range x.waiting.all() {
			x.forward(c, call)
		}
		x.sender.OnDiscovered()
		err = redisnode.ErrNoMaster // no slot of the calls that still wait has a master
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
