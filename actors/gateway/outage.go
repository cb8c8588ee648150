package gateway

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
)

// outage is what a gateway knows about the availability of Redis.
//
// When a batch has failed, calls stay in line, and probes are sent with back-off. If Redis was silent, a probe is a single call, because a larger
// probe that fails would leave many calls to be repeated. If the server answered that it accepts no writes, a probe may be a full batch: a
// refused call has no effect, and calls that only read may succeed.
//
// When Redis serves again, all waiters want to ask for their locks, while leases that could not be renewed are about to expire. So the watchdog's
// renewals go first: a gateway with Options.RenewalsFirst pauses until they have been answered. The gateway of the renewals does not have that
// option, and never holds calls back, not even in an outage.
type outage struct {
	vain        int           // batches in a row that did not reach Redis, or 0 if Redis serves
	silent      bool          // whether the last of these batches got no reply; false if Redis replied that it does not serve
	probeAt     time.Duration // no probe before this instant
	pausedUntil time.Duration // when a pause ends at the latest; it ends sooner if the renewals are answered; 0 without a pause

	heard   time.Duration // when Redis last served
	reached time.Duration // when the newest of the served batches was taken from the line

	lookAt time.Duration // no discovery of the masters before this instant
}

// Recovered tells the watchdog that Redis serves again. If From is set, the watchdog resumes that gateway when the renewals have been
// answered.
type Recovered struct{ From Gateway }

const lookWait = 200 * time.Millisecond // pause between two discoveries of the masters

// room returns the number of calls that may be sent in one batch now.
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

// opensAt returns the instant from which something may be sent again.
func (o *outage) opensAt() time.Duration {
	if o.vain > 0 {
		return max(o.pausedUntil, o.probeAt)
	}
	return o.pausedUntil
}

// detectRecovery notes whether a batch was served. If an outage ends with this batch, detectRecovery tells the watchdog. A batch that was served only
// after redisnode.Silence also counts as the end of an outage.
func (g *gateway) detectRecovery(b *batch) {
	now, o := g.sender.Clock.Now(), &g.outage
	if !b.reached {
		g.inVain(b, now, b.lost)
		return
	}
	g.sender.heard.Add(1)
	recovered := o.vain > 0 || now-b.begun >= redisnode.Silence
	o.vain, o.heard, o.reached = 0, now, max(o.reached, b.begun)
	if !recovered {
		return
	}
	back := Recovered{}
	if g.options.RenewalsFirst {
		back.From = g
		o.pausedUntil = now + rpc.Window(g.sender.Lease)
	}
	g.outgoing = append(g.outgoing, message{g.sender.Renewer, back})
}

// inVain counts a batch that did not reach Redis, unless the batch has been counted already, or a newer batch has reached Redis. After the first
// failed batch, a probe may be sent at once, because often only one connection has broken.
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

// returnStrays looks for another master while calls wait and batches fail or hang (doubtedAt). It starts a discovery of the masters every lookWait.
// If the key of the first waiting call now belongs to another master, returnStrays sends all waiting calls back to the clusterGateway. This needs no
// worker, so it works even if all workers hang.
func (g *gateway) returnStrays(now time.Duration) {
	o := &g.outage
	if g.waiting.len() == 0 || now < g.doubtedAt() {
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
		g.outgoing = append(g.outgoing, message{content: call})
	}
}

// doubtedAt returns the instant from which returnStrays looks for another master. If the last batch failed, doubtedAt returns 0, which means at once.
// If not, it returns the instant at which the oldest batch will have been in flight for lookWait.
func (g *gateway) doubtedAt() time.Duration {
	if g.outage.vain > 0 {
		return 0
	}
	for _, b := range g.inFlight {
		if !b.away {
			return b.begun + lookWait
		}
	}
	return clock.Never
}
