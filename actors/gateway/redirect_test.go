package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/scripts"
)

// atAddrs stands for a cluster. Its master oneNode.node redirects calls to the masters in `nodes`, a map by address. An address without a host is
// at the host of the master that sent the redirection.
type atAddrs struct {
	oneNode
	nodes map[string]*redisnode.Node
}

func (a *atAddrs) AtAddr(addr string, by *redisnode.Node) *redisnode.Node {
	for known, node := range a.nodes {
		if host, _, _ := strings.Cut(known, ":"); node == by && strings.HasPrefix(addr, ":") {
			return a.nodes[host+addr]
		}
	}
	return a.nodes[addr]
}

func (*atAddrs) Suspect() {}

// newRedirected makes the gateway of a master that redirects some calls. Calls for the key "silent" go to a master that does not answer until the
// test ends. Calls for "moved" go to a master that answers at once. Calls for "again" are redirected twice; the second redirection names only a port.
// The first master answers all other calls itself, and runs `reached` for each call that it receives. newRedirected returns a function that submits a
// call for a key.
func newRedirected(t *testing.T, reached func(key any)) (submit func(key string, window time.Duration) asker) {
	silence := make(chan struct{})
	answer := func(before func(args []any) error) *redisnode.Node {
		return answers(func(args []any) (any, error) {
			switch args[0] {
			case "ping":
				return args[1], nil
			case "time":
				return []any{"1700000000", "0"}, nil
			}
			if err := before(args); err != nil {
				return nil, err
			}
			return int64(1), nil
		}).node(t)
	}
	here := answer(func(args []any) error {
		reached(args[3])
		switch args[3] {
		case "silent", "moved", "again":
			return refusal(fmt.Sprintf("ASK 0 %v:1", args[3]))
		}
		return nil
	})
	nodes := &atAddrs{oneNode{node: here}, map[string]*redisnode.Node{
		"silent:1": answer(func([]any) error { <-silence; return nil }), "moved:1": answer(func([]any) error { return nil }),
		"again:1": answer(func([]any) error { return refusal("MOVED 0 :2") }), "again:2": answer(func([]any) error { return nil }),
	}}
	system := clock.NewSystem()
	s := NewSender(Config{Ctx: t.Context(), Clock: system, Nodes: nodes, Recorder: &trace.Recorder{}, Errors: &redisnode.Errors{}, Lease: time.Minute})
	g := newGateway(s, here, Options{})
	g.cluster = &clusterGateway{}
	g.startWorker()
	t.Cleanup(func() {
		close(silence)
		<-g.Stop()
		assert.Empty(t, g.away)
	})
	return func(key string, window time.Duration) asker {
		answered := make(asker, 1)
		g.Submit(&rpc.Call{Call: scripts.Lock.Look(key, "g1"), From: answered, Timing: rpc.Patient(system.Now(), window, window)})
		return answered
	}
}

// A silent master delays only the calls that are redirected to it, even if many pipelines redirect one call each to it.
func TestRedirect_ManyToASilentMaster(t *testing.T) {
	t.Parallel()
	reached := make(chan any, 4*awayMax)
	submit := newRedirected(t, func(key any) { reached <- key })
	var lost []asker
	for range 2 * awayMax {
		lost = append(lost, submit("silent", 3*time.Second))
		require.Equal(t, "silent", <-reached) // so that the next call is in another pipeline
	}
	select {
	case r := <-submit("staying", time.Minute):
		assert.NoError(t, r.Err)
	case r := <-lost[0]:
		assert.Fail(t, "the silent master has held up a call to another one", r.Err)
	}
	moved := submit("moved", time.Minute)
	for _, answered := range lost {
		r := <-answered
		assert.Equal(t, scripts.Unknown, r.Class)
		assert.ErrorIs(t, r.Err, rpc.ErrNoAnswer)
	}
	assert.NoError(t, (<-moved).Err)
}

// One pipeline has calls that are redirected to a silent master, and calls that are redirected to another master. The silent master does not hold up
// the calls to the other one.
func TestRedirect_SilentMasterBesideAnother(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	submit := newRedirected(t, func(key any) {
		if key == "first" {
			<-gate
		}
	})
	first := submit("first", time.Minute)
	var lost, moved []asker
	for range 10 { // they leave in one pipeline, after the first call
		lost = append(lost, submit("silent", time.Minute))
		moved = append(moved, submit("moved", 3*time.Second))
	}
	close(gate)
	assert.NoError(t, (<-first).Err)
	for _, answered := range moved {
		assert.NoError(t, (<-answered).Err)
	}
	for _, answered := range lost {
		assert.Empty(t, answered)
	}
}

// A redirection without a host refers to the host of the node that sent the redirection. This also holds if the call came to that node by a
// redirection from another node.
func TestRedirect_WithoutAHostAfterAnother(t *testing.T) {
	t.Parallel()
	submit := newRedirected(t, func(any) {})
	assert.NoError(t, (<-submit("again", time.Minute)).Err)
}
