package gateway

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/rpc"
)

// outage is what a gateway knows about whether Redis serves.
//
// When a batch has come back in vain, calls stay in line but for a probe, with back-off. If nobody answered, the probe is one call: more
// would have to be repeated. If the server said that it serves nobody who writes, a probe may be a full batch: nothing of it was executed,
// and calls that only read may succeed.
//
// When Redis is back, everybody who waits for a lock wants to ask for it, but leases that could not be renewed meanwhile are running out:
// the watchdog goes first.
type outage struct {
	vain        int           // batches in a row that did not reach Redis; 0: it serves
	silent      bool          // the last of them had no answer
	probeAt     time.Duration // the next one is not sent before
	pausedUntil time.Duration // nothing is sent until then, or until the renewals have been answered; 0: they have

	heard   time.Duration // when Redis was seen to serve the last time
	reached time.Duration // when the newest batch left the line of which an answer shows that

	lookAt time.Duration // the masters are not asked for again before
}

type (
	// Recovered tells the watchdog that calls get through again. If From is set, it waits for Resume: the renewals have been answered.
	Recovered struct{ From *actor.PID }
	Resume    struct{}
)

const (
	Silence  = 500 * time.Millisecond // after which an answer counts as the end of an outage
	lookWait = 200 * time.Millisecond // between two looks for another master
)

// room is how many calls may be sent in one batch now.
func (g *gateway) room(now time.Duration) int {
	switch o := &g.outage; {
	case !g.options.RenewalsFirst:
		return batchMax
	case now < o.opensAt():
		return 0
	case o.vain > 0 && o.silent:
		return 1
	}
	return batchMax
}

// opensAt is when something may be sent again.
func (o *outage) opensAt() time.Duration {
	if o.vain > 0 {
		return max(o.pausedUntil, o.probeAt)
	}
	return o.pausedUntil
}

// detectRecovery looks at what has become of a batch.
func (g *gateway) detectRecovery(c actor.Context, b *batch) {
	now, o := g.sender.Clock.Now(), &g.outage
	if !b.reached {
		g.inVain(b, now, b.lost)
		return
	}
	g.sender.heard.Add(1)
	back := o.vain > 0 || now-b.begun >= Silence
	o.vain, o.heard, o.reached = 0, now, max(o.reached, b.begun)
	if !back {
		return
	}
	message := Recovered{}
	if g.options.RenewalsFirst {
		message.From = c.Self()
		o.pausedUntil = now + rpc.Window(g.sender.Lease)
	}
	c.Send(g.sender.Renewer, message)
}

// inVain counts a batch that did not reach Redis, once, unless a newer one has. The first probe is sent at once: often it is only a
// connection that has broken.
func (g *gateway) inVain(b *batch, now time.Duration, silent bool) {
	o := &g.outage
	if b.vain || b.begun < o.reached {
		return
	}
	b.vain, o.silent, o.probeAt = true, silent, now
	if o.vain++; o.vain > 1 {
		o.probeAt += g.sender.Pause(o.vain - 1)
	}
}

// returnStrays sends the calls in line back to the clusterGateway when their keys have moved from a master that does not answer to another
// one. It also has the masters be asked for again now and then. No worker has to be free for that: all of them may hang.
func (g *gateway) returnStrays(c actor.Context, now time.Duration) {
	o := &g.outage
	if g.home == nil || g.waiting.len() == 0 || now < g.doubtedAt() {
		return
	}
	if now >= o.lookAt {
		o.lookAt = now + lookWait
		g.sender.Nodes.Suspect()
	}
	if n := g.sender.Nodes.ForKey(g.waiting.front().Key()); n == nil || n == g.node {
		return
	}
	for _, call := range g.waiting.all() {
		c.Send(g.home, call)
	}
}

// doubtedAt is when there is reason to look for another master: none has answered, or the oldest batch has hung for a while.
func (g *gateway) doubtedAt() time.Duration {
	switch {
	case g.outage.vain > 0:
		return 0
	case len(g.inFlight) > 0:
		return g.inFlight[0].begun + lookWait
	}
	return clock.Never
}
