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
	away  bool // its calls were redirected; a goroutine of its own sends the batch (redirect.go)
	leash
	calls  []*rpc.Call
	claims []claim // by call

	home *gateway // takes redirected calls out of the batch; nil without a cluster

	// owned by the gateway
	begun time.Duration // when the batch was taken from the line
	due   time.Duration // the earliest deadline of a call without an answer
	vain  bool          // the batch has been counted as one that did not reach Redis
	given bool          // the batch was given up: all its calls are answered, and a new worker has replaced the worker that hangs in sending it

	// owned by the worker
	*scratch
	sent      time.Duration
	unbundled bool              // calls are not bundled any more
	lost      bool              // no reply came from Redis, or it is unknown which call each reply belongs to
	reached   bool              // a reply shows that Redis serves
	returned  bool              // go-redis and the hooks of the client have returned
	missing   []*scripts.Script // scripts that the server lacks
}

// leash is the context of a batch. The gateway cancels the context when it gives the batch up. If a batch ends normally, its leash is used again
// for a later batch.
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
	bundleMin = 4  // a smaller bundle saves less than its additional script costs
	bundleMax = 64 // calls in a bundle; a server that executes a bundle serves no other client (about 0.2 ms, more if waiters leave long queues)
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
	unacked error // why the script's writes may be on too few replicas; nil if enough have acknowledged, or if none need to acknowledge
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

// errApart is the reply to every call of a bundle if Redis has refused the whole bundle. Redis does so if the Redis user lacks a right that one of
// the calls needs. Then each call of the bundle is sent again by itself.
var errApart = errors.New("not together with others")

// pack makes parcels of the open calls. On a cluster calls are not bundled, because one script can reach one slot only. Calls of the same script keep
// their order, but calls of different scripts may change their order. This does no harm: an actor whose calls must be executed in order has only one
// call in flight at a time.
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
// pipeline's WAIT. unpack stores it for each call, because the calls of a batch may have different outcomes: a redirected call is sent again in a
// second pipeline, to another server, with its own WAIT.
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
