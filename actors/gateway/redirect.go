package gateway

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/scripts"
)

// redirectsMax is the number of times that a call is redirected before it is refused.
const redirectsMax = 3

// target is the address in a redirection. A MOVED names the new master of the key. An ASK names a master for this call only, because the key's slot
// is being moved.
type target struct {
	addr string
	ask  bool
}

func redirected(err error) (to target, ok bool) {
	if err == nil || !redisnode.IsReply(err) {
		return target{}, false
	}
	words := strings.Fields(err.Error())
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return target{}, false
	}
	return target{addr: hostPort(words[2]), ask: words[0] == "ASK"}, true
}

// hostPort returns the address of a redirection in Go's form. Redis omits the brackets of an IPv6 address, so hostPort adds them.
func hostPort(addr string) string {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr[:colon], "[]"), addr[colon+1:])
}

// split divides the open calls into two groups: calls that the node has answered (`here`), and calls that it has redirected (`away`).
func (b *batch) split(open []int) (here, away []int) {
	for _, i := range open {
		if _, moved := redirected(b.replies[i].err); moved {
			away = append(away, i)
		} else {
			here = append(here, i)
		}
	}
	return here, away
}

// road is what a gateway knows about the calls that are redirected to one address.
type road struct {
	busy    int      // goroutines that follow redirections to this address
	waiting []*batch // sent when one of these goroutines ends
}

// detach takes redirected calls out of a batch, and lets goroutines follow the redirections. Each address has its own goroutines, so a master that
// does not answer holds up no call to another master. detach returns false if the worker has to follow the redirections itself.
func (b *batch) detach(calls []int) bool {
	g := b.home
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false
	}
	b.reached = b.node.Errors.Remember(nil) // a redirection is an answer
	parts := map[string]*batch{}            // by address
	for _, i := range calls {
		if !b.claims[i].taken.CompareAndSwap(false, true) {
			continue // the gateway has given the call up
		}
		to, _ := redirected(b.replies[i].err)
		out := parts[to.addr]
		if out == nil {
			out = &batch{node: b.node, acked: b.acked, away: true, begun: b.begun, sent: b.sent, due: clock.Never, scratch: &scratch{}}
			parts[to.addr] = out
		}
		out.open = append(out.open, len(out.calls))
		out.calls, out.replies = append(out.calls, b.calls[i]), append(out.replies, b.replies[i])
		out.due = min(out.due, b.calls[i].Deadline)
	}
	for addr, out := range parts {
		out.claims = make([]claim, len(out.calls))
		for i, call := range out.calls {
			out.claims[i].deadline = call.Deadline
		}
		out.ctx, out.cancel = context.WithCancel(g.sender.Ctx)
		g.inFlight = append(g.inFlight, out)
		g.leaveFor(addr, out)
	}
	g.arm()
	return true
}

// leaveFor starts a goroutine that follows the redirections of a batch to one address. If awayMax goroutines already follow redirections to this
// address, the batch waits until one of them ends.
func (g *gateway) leaveFor(addr string, b *batch) {
	r := g.away[addr]
	if r == nil {
		r = &road{}
		g.away[addr] = r
	}
	if r.busy == awayMax {
		r.waiting = append(r.waiting, b)
		return
	}
	r.busy++
	g.group.Go(func() {
		defer g.locked(func() { g.onBack(addr, b) })
		g.sender.runAway(b)
	})
}

// onBack ends a batch whose redirections have been followed, and starts the next batch that waits for the same address. It skips batches that were
// given up while they waited.
func (g *gateway) onBack(addr string, b *batch) {
	g.remove(b)
	b.cancel()
	r := g.away[addr]
	r.busy--
	for !g.stopped && len(r.waiting) > 0 {
		next := r.waiting[0]
		r.waiting[0], r.waiting = nil, r.waiting[1:]
		if next.due != clock.Never {
			g.leaveFor(addr, next)
			return
		}
	}
	if r.busy == 0 {
		delete(g.away, addr)
	}
}

// runAway runs a batch that detach has made: it follows the redirections of the batch's calls, and posts the results.
func (s *Sender) runAway(b *batch) {
	defer s.recoverBatch(b)
	defer b.clear()
	s.follow(b, b.open)
	for _, i := range s.postExcept(b, b.open) {
		s.post(b, i, rpc.Result{Class: scripts.Refused, Err: errFlushed})
	}
	b.returned = true
}

// follow sends the redirected calls to the masters that the redirections name. If a call cannot be sent there, its reply is still the redirection. A
// redirection counts as a refusal of the call.
func (s *Sender) follow(b *batch, open []int) {
	type hop struct {
		to target
		by *redisnode.Node // which an address without a host refers to
	}
	for range redirectsMax {
		var away map[hop][]int
		for _, i := range open {
			if to, ok := redirected(b.replies[i].err); ok {
				if away == nil {
					away = map[hop][]int{}
				}
				next := hop{to, b.replies[i].node}
				away[next] = append(away[next], i)
			}
		}
		if len(away) == 0 {
			return
		}
		s.Nodes.Suspect()
		followed := false
		for next, calls := range away {
			if n := s.Nodes.AtAddr(next.to.addr, next.by); n != nil {
				s.exchangeAt(b, n, next.to.ask, calls)
				followed = true
			}
		}
		if !followed {
			return
		}
	}
}

// exchangeAt sends a few calls to another node as one pipeline. The pipeline also loads the script of each call, because the node may not have it. If
// a node was missing from the cluster for a minute, go-redis closes its client for the node. If the client is closed, the replies to the calls are
// still their redirections, and later calls use a new client.
func (s *Sender) exchangeAt(b *batch, n *redisnode.Node, ask bool, calls []int) {
	if !n.Clock.Known() {
		if err := s.askTime(b, n); err != nil {
			s.dropClosed(n, err)
			return
		}
	}
	var commands []redis.Cmder
	var clock redisnode.Command
	offset, stale := n.Clock.Read(s.Clock.Now())
	if stale {
		clock = redisnode.NewCommand("time")
		commands = append(commands, clock)
	}
	loaded := map[*scripts.Script]bool{}
	parcels := make([]parcel, len(calls))
	for k, i := range calls {
		call := b.calls[i]
		if !loaded[call.Script] {
			loaded[call.Script] = true
			commands = append(commands, redisnode.NewCommand("script", "load", call.Script.Source))
		}
		s.bound(call, offset)
		if ask {
			commands = append(commands, redisnode.NewCommand("asking"))
		}
		parcels[k] = parcel{redisnode.NewCommand(call.Sent()...), call.Script, calls[k : k+1]}
		commands = append(commands, parcels[k].Command)
	}
	began := s.Clock.Now()
	unacked, err := s.finish(b, b.client(n).Pipeline(), commands, parcels)
	s.Recorder.Exchanged(len(calls), began, err, func() int { return b.locks(calls) })
	switch {
	case s.dropClosed(n, err):
		return
	case err == nil && clock.Cmd != nil:
		_ = n.Clock.Observe(clock, s.Clock.Now()) // if it fails, the old sample stays in use
	}
	b.unpack(n, parcels, unacked)
}

// dropClosed forgets a node, and returns true, if the error shows that the client of the node is closed.
func (s *Sender) dropClosed(n *redisnode.Node, err error) bool {
	closed := errors.Is(err, redis.ErrClosed)
	if closed {
		s.Nodes.Drop(n)
	}
	return closed
}
