package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
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
	vain    int           // batches in a row that did not reach Redis; 0: it serves
	silent  bool          // the last of them had no answer
	probeAt time.Duration // the next one is not sent before
	heldTo  time.Duration // nothing is sent until then, or until the renewals have been answered; 0: they have

	heard   time.Duration // when Redis was seen to serve the last time
	reached time.Duration // when the newest batch left the line of which an answer shows that
}

type (
	// redisBack tells the watchdog that calls get through again; who asks for it is told goOn when the renewals have been answered.
	redisBack struct{ from *actor.PID }
	goOn      struct{}
)

const silence = 500 * time.Millisecond // after which an answer counts as the end of an outage

// room is how many calls may be sent in one batch now.
func (g *gateway) room(now time.Duration) int {
	switch o := &g.outage; {
	case !g.polite:
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
		return max(o.heldTo, o.probeAt)
	}
	return o.heldTo
}

// notice looks at what has become of a batch.
func (g *gateway) notice(c actor.Context, b *batch) {
	now, o := g.engine.clock.Now(), &g.outage
	if !b.reached {
		g.inVain(b, now, b.lost)
		return
	}
	back := o.vain > 0 || now-b.begun >= silence
	o.vain, o.heard, o.reached = 0, now, max(o.reached, b.begun)
	if !back {
		return
	}
	message := redisBack{}
	if g.polite {
		message.from = c.Self()
		o.heldTo = now + Window(g.engine.policy.Lease)
	}
	c.Send(g.engine.watchdog.self, message)
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
		o.probeAt += min(g.engine.policy.backoff(o.vain-1), g.engine.policy.ProbeMax)
	}
}

// returnStrays sends the calls in line to where they came from when their keys have moved to another master meanwhile: that one may
// serve.
func (g *gateway) returnStrays(c actor.Context) {
	if g.home == nil || g.outage.vain == 0 {
		return
	}
	if n := g.engine.masters.of(g.waiting.front().Key()); n == nil || n == g.node {
		return
	}
	for _, call := range g.waiting.all() {
		c.Send(g.home, call)
	}
}
