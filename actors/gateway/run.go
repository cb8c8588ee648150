package gateway

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
)

// A goroutine that waits for the result of its call sends the call itself if the gateway is idle (Run). Handing the call to a worker and the result
// back wakes a thread each time, which costs more CPU than sending. The batch of a caller is like that of a worker, except that it ends after
// redisnode.Silence. Otherwise it could hold up the caller for longer, because go-redis returns neither when the caller's context ends nor when
// the gateway gives the call up. A read that has begun when the batch ends takes up to redisnode.Silence more.

// heardWithin is how recently Redis must have answered for a caller to send its call. If the last answer is older, a worker sends the call, so that
// a server that has become silent holds up no caller.
const heardWithin = time.Second

// Run takes a call of a goroutine that waits for the result.
func (g *gateway) Run(call *rpc.Call) { g.deliver(g.take(call, true)) }

// letCallerRun makes a batch of a call, for the goroutine that submits it, if no other call waits and Redis serves. Such a call never stands in line.
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

// caller sends a batch on the goroutine that delivers the messages.
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
