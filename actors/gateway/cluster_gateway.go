package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// clusterGateway has a gateway for each master of a cluster, so that calls to a silent master do not delay others. It forwards each call to the
// gateway of the master that has the call's key. A goroutine that needs both mutexes locks the clusterGateway's first, and then the gateway's.
type clusterGateway struct {
	// fixed at construction
	sender  *Sender
	cluster *redisnode.Cluster
	options Options

	mu       sync.Mutex
	outgoing []message // to be sent when mu is free
	gateways map[*redisnode.Node]*nodeGateway
	waiting  line // calls whose master is not known yet
	learning bool
	failures int         // consecutive discoveries after which at least one waiting call still had no known master
	pause    clock.Timer // before the next discovery
	stopped  bool
	group    sync.WaitGroup // waits for the goroutine that discovers the masters, and for gateways that are being stopped
}

// nodeGateway is the gateway to one master.
type nodeGateway struct {
	*gateway
	used time.Duration
}

const (
	unusedWait = time.Minute // a gateway that was not used for this long is closed: its node may have left the cluster
)

func newClusterGateway(s *Sender, c *redisnode.Cluster, o Options) *clusterGateway {
	return &clusterGateway{sender: s, cluster: c, options: o, gateways: map[*redisnode.Node]*nodeGateway{}}
}

// Submit takes a call.
func (x *clusterGateway) Submit(call *rpc.Call) { x.locked(func() { x.forward(call, false) }) }

// Run takes a call of a goroutine that waits for the result.
func (x *clusterGateway) Run(call *rpc.Call) { x.locked(func() { x.forward(call, true) }) }

// Resume does nothing, because the watchdog resumes the gateway of each master directly.
func (x *clusterGateway) Resume() {}

// locked holds the mutex while it calls the function `change`. Then it sends the messages in `outgoing`.
func (x *clusterGateway) locked(change func()) {
	defer x.sender.Events.RecoverIn("gateway")
	for _, m := range func() []message {
		x.mu.Lock()
		defer x.mu.Unlock()
		change()
		messages := x.outgoing
		x.outgoing = nil
		return messages
	}() {
		if call, stray := m.content.(*rpc.Call); stray {
			x.Submit(call)
		} else {
			m.to.Send(m.content)
		}
	}
}

// refuse queues the answer to a call that was not sent.
func (x *clusterGateway) refuse(call *rpc.Call, err error) {
	x.outgoing = append(x.outgoing, message{call.From, call.Answer(rpc.Result{Class: scripts.Refused, Err: err})})
}

func (x *clusterGateway) forward(call *rpc.Call, run bool) {
	if x.stopped {
		x.refuse(call, protocol.ErrClosed)
		return
	}
	n := x.cluster.ForKey(call.Key())
	if n == nil {
		x.waiting.push(call)
		x.learn()
		return
	}
	out := x.gateways[n]
	if out == nil {
		out = x.open(n)
	}
	out.used = x.sender.Clock.Now()
	x.outgoing = append(x.outgoing, out.take(call, run)...)
}

// open starts the gateway of a node. On this rare occasion it also closes the gateways that were not used for unusedWait.
func (x *clusterGateway) open(n *redisnode.Node) *nodeGateway {
	x.closeUnused()
	n = x.cluster.Keep(n)
	out := &nodeGateway{gateway: newGateway(x.sender, n, x.options)}
	out.cluster = x
	out.startWorker()
	x.gateways[n] = out
	return out
}

func (x *clusterGateway) closeUnused() {
	now := x.sender.Clock.Now()
	for n, out := range x.gateways {
		if now-out.used < unusedWait || !out.idle() {
			continue
		}
		delete(x.gateways, n)
		x.cluster.Forget(n)
		x.stopOne(out)
	}
}

func (x *clusterGateway) stopOne(out *nodeGateway) {
	done := out.Stop()
	x.group.Go(func() { <-done })
}

// learn starts a discovery of the masters if calls wait for it and none is in progress.
func (x *clusterGateway) learn() {
	if x.learning || x.stopped || x.waiting.len() == 0 {
		return
	}
	x.learning = true
	x.group.Go(func() {
		ctx, cancel := context.WithTimeout(x.sender.Ctx, redisnode.DiscoverWait)
		defer cancel()
		err := x.cluster.Discover(ctx)
		x.locked(func() { x.onLearned(err) })
		if err == nil {
			x.sender.OnDiscovered()
		}
	})
}

// onLearned handles the end of a discovery. If the discovery has succeeded, onLearned forwards the waiting calls. Calls whose master is still unknown
// go on waiting, but onLearned refuses those that have waited too long.
func (x *clusterGateway) onLearned(err error) {
	if err == nil {
		for _, call := range x.waiting.all() {
			x.forward(call, false)
		}
		err = redisnode.ErrNoMaster // the masters are known; if a call still waits, its slot has no master
	}
	for _, call := range x.waiting.sweep(x.sender.Clock.Now(), 0) {
		x.refuse(call, x.sender.Errors.Explain(fmt.Errorf("the cluster's masters are not known: %w", err)))
	}
	if x.waiting.len() == 0 {
		x.learning, x.failures = false, 0
		return
	}
	x.failures++
	x.pause = x.sender.Clock.AfterFunc(x.sender.Pause(x.failures), func() {
		x.locked(func() {
			x.learning = false
			x.learn()
		})
	})
}

// Stop ends every gateway.
func (x *clusterGateway) Stop() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopped = true
	if x.pause != nil {
		x.pause.Stop()
	}
	for _, out := range x.gateways {
		x.stopOne(out)
	}
	done := make(chan struct{})
	go func() {
		x.group.Wait()
		close(done)
	}()
	return done
}
