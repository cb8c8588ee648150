package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/scripts"
)

// batch is one pipeline. Each call in it is answered by whoever claims it first: the worker, or the gateway at the call's deadline.
type batch struct {
	node  *redisnode.Node
	acked bool
	hasty bool // sent by the caller of Run, not by a worker
	away  bool // its calls are redirected ones; the batch has a goroutine of its own (redirect.go)
	leash
	calls  []*rpc.Call
	claims []claim // by call

	home *gateway // takes redirected calls out of the batch; nil without a cluster

	// owned by the gateway
	begun time.Duration // when the batch was taken from the line
	due   time.Duration // the earliest deadline of a call without an answer
	vain  bool          // the batch has been counted as one that did not reach Redis
	given bool          // the batch was given up: all its calls are answered, and another worker has replaced the one that hangs with it

	// owned by the worker
	*scratch
	sent      time.Duration
	unbundled bool              // calls are not bundled any more
	lost      bool              // no reply came from Redis, or it is unknown which call each reply belongs to
	reached   bool              // a reply shows that Redis serves
	returned  bool              // go-redis and the hooks of the client have returned
	missing   []*scripts.Script // scripts that the server lacks
}

// leash is the context of a batch. It ends when all calls of the batch have been given up. If a batch ends normally, a later batch uses its leash
// again.
type leash struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// claim is the right to answer a call of a batch. Only the goroutine that has taken it may answer the call.
type claim struct {
	taken    atomic.Bool
	deadline time.Duration // of the call
}

const (
	bundleMin = 4  // smaller bundles are not worth the additional script that executes them
	bundleMax = 64 // calls in a bundle; while a server executes a bundle (about 0.2 ms, longer if waiters leave a long queue), it serves no other client
)

// parcel is one command of a pipeline: a call, or a bundle of calls of the same script.
type parcel struct {
	redisnode.Command
	script *scripts.Script
	calls  []int // indices in the batch
}

// reply is the outcome of a call.
type reply struct {
	node    *redisnode.Node // the node that sent it
	value   any
	err     error
	unacked error // why the script's writes may be on too few replicas; nil if enough replicas have acknowledged, or if none had to
}

// scratch is memory that a worker uses for one batch after the other.
type scratch struct {
	replies []reply // by call
	open    []int
	parcels []parcel
	groups  []parcel
	bundled []*scripts.Call

	pipe     redis.Pipeliner // sends one pipeline after the other
	commands []redis.Cmder   // the commands of the present pipeline
}

// clear drops the references to the batch's data.
func (w *scratch) clear() {
	clear(w.replies)
	clear(w.parcels[:cap(w.parcels)])
	clear(w.bundled[:cap(w.bundled)])
	clear(w.commands[:cap(w.commands)])
}

// client returns the client that sends this batch's commands to a node.
func (b *batch) client(n *redisnode.Node) redis.UniversalClient {
	if b.hasty {
		return n.Hasty
	}
	return n.Client
}

// errApart is the reply to each call of a bundle that Redis has refused as a whole, because the Redis user lacks a right that one of the calls needs.
// Each of these calls is then sent again by itself.
var errApart = errors.New("not together with others")

// pack makes parcels of the open calls. On a cluster calls are not bundled, because one script can reach one slot only. Calls of a bundle
// keep their order, but calls of other scripts may overtake them. This does no harm: an actor that needs an order has one call in flight at a time.
func (b *batch) pack(open []int) []parcel {
	parcels, groups := b.parcels[:0], b.groups[:0]
	for k, i := range open {
		script := b.calls[i].Script
		if script.Many == nil || !b.node.Standalone || b.unbundled {
			parcels = append(parcels, parcel{script: script, calls: open[k : k+1]})
			continue
		}
		at := slices.IndexFunc(groups, func(g parcel) bool { return g.script == script })
		if at < 0 {
			at = len(groups)
			groups = slices.Grow(groups, 1)[:at+1]
			groups[at] = parcel{script: script, calls: groups[at].calls[:0]} // reuses the memory of an earlier batch
		}
		groups[at].calls = append(groups[at].calls, i)
	}
	for _, g := range groups {
		size := bundleMax
		if len(g.calls) < bundleMin {
			size = 1
		}
		for calls := range slices.Chunk(g.calls, size) {
			parcels = append(parcels, parcel{script: g.script, calls: calls})
		}
	}
	b.parcels, b.groups = parcels, groups
	all := make([]redis.Cmd, len(parcels)) // one allocation for all commands instead of one for each
	for k := range parcels {
		p := &parcels[k]
		var sent []any
		if len(p.calls) == 1 {
			sent = b.calls[p.calls[0]].Sent()
		} else {
			bundle := scripts.Bundle(b.scriptCalls(p.calls))
			p.script, sent = bundle.Script, bundle.Command
		}
		all[k] = *redis.NewCmd(context.Background(), sent...)
		p.Command = redisnode.Command{Cmd: &all[k]}
	}
	return parcels
}

func (b *batch) scriptCalls(calls []int) []*scripts.Call {
	b.bundled = b.bundled[:0]
	for _, i := range calls {
		b.bundled = append(b.bundled, &b.calls[i].Call)
	}
	return b.bundled
}

// unpack assigns the replies of one pipeline to the calls, and notes which scripts the server lacked. The parameter `unacked` is the outcome of the
// pipeline's WAIT. This outcome is stored for each call separately, because a redirected call belongs to a second pipeline, which goes to another
// server and has its own WAIT.
func (b *batch) unpack(n *redisnode.Node, parcels []parcel, unacked error) {
	for _, p := range parcels {
		value, err := p.Result()
		if len(p.calls) > 1 {
			b.unbundle(n, p, value, err, unacked)
			continue
		}
		b.replies[p.calls[0]] = reply{node: n, value: value, err: err, unacked: unacked}
		if err != nil && redisnode.IsNoScript(err) {
			b.misses(p.script)
		}
	}
}

func (b *batch) unbundle(n *redisnode.Node, p parcel, value any, err, unacked error) {
	var values []any
	if err == nil {
		values, err = scripts.Unbundle(value, len(p.calls))
	}
	switch {
	case err == nil:
	case redisnode.IsNoScript(err):
		b.misses(p.script)
	case redisnode.IsReply(err) && strings.HasPrefix(scripts.Reply(err), "NOPERM"):
		err, b.unbundled = errApart, true
		b.misses(b.calls[p.calls[0]].Script)
	}
	for k, i := range p.calls {
		b.replies[i] = reply{node: n, err: err, unacked: unacked}
		if err != nil {
			continue
		}
		if refused, ok := values[k].(error); ok {
			b.replies[i].err = refused
			continue
		}
		b.replies[i].value = values[k]
	}
}

func (b *batch) misses(s *scripts.Script) {
	if !slices.Contains(b.missing, s) {
		b.missing = append(b.missing, s)
	}
}

// loads returns the commands that load the scripts that the server lacks.
func (b *batch) loads() (loads []redis.Cmder) {
	for _, script := range b.missing {
		loads = append(loads, redisnode.NewCommand("script", "load", script.Source))
	}
	b.missing = nil
	return loads
}

// locks returns the number of names that the calls with these indices are about.
func (b *batch) locks(calls []int) (n int) {
	for _, i := range calls {
		n += max(b.calls[i].Locks, 1)
	}
	return n
}
