package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/scripts"
)

// If the timer for a deadline fires while the gateway stops, it must not start a worker, because nobody would wait for the worker.
func TestGateway_StoppedChecksNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(NewSender(Config{Clock: clock.NewSystem()}), &redisnode.Node{}, Options{})
	b := &batch{calls: []*rpc.Call{{}}, claims: make([]claim, 1)}
	b.claims[0].taken.Store(true) // the call was answered with an unknown outcome, and its worker hangs
	g.inFlight = append(g.inFlight, b)
	<-g.Stop()
	g.check()
	assert.Zero(t, g.stuck)
	assert.False(t, b.given)
}

// A timer that fires after the gateway has stopped must not set another one, although a hanging batch is still due.
func TestGateway_StoppedSetsNoTimer(t *testing.T) {
	t.Parallel()
	g := newGateway(NewSender(Config{Clock: clock.NewSystem()}), &redisnode.Node{}, Options{})
	g.inFlight = append(g.inFlight, &batch{calls: []*rpc.Call{{}}, claims: make([]claim, 1)})
	<-g.Stop()
	g.locked(g.check)
	assert.Nil(t, g.timer)
}

// answers is a hook of a Redis client. The hook answers the client's commands itself, so no server is needed.
type answers func(args []any) (any, error)

func (answers) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (answers) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f answers) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, commands []redis.Cmder) error {
		for _, c := range commands {
			if value, err := f(c.Args()); err != nil {
				c.SetErr(err)
			} else {
				c.(interface{ SetVal(any) }).SetVal(value)
			}
		}
		return nil
	}
}

func (f answers) node(t *testing.T) *redisnode.Node {
	client := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	client.AddHook(f)
	return redisnode.NewNode(client, time.Second)
}

// elsewhere stands for a cluster in which every address leads to the same master.
type elsewhere struct {
	redisnode.Nodes
	node *redisnode.Node
}

func (e elsewhere) AtAddr(string, *redisnode.Node) *redisnode.Node { return e.node }
func (elsewhere) Suspect()                                         {}

// asker keeps the results of its calls.
type asker chan *rpc.Result

func (a asker) Send(message any) { a <- message.(*rpc.Result) }

// A call that is redirected to a slow master does not delay the other calls of its batch. The slow master's reply contains that master's time. This
// time corrects the estimate of the slow master's clock, not the estimate for the master that redirected the call.
func TestRun_AnswersDoNotWaitForAnotherMaster(t *testing.T) {
	t.Parallel()
	answered := make(asker, 2)
	silent := make(chan struct{})
	here := answers(func(args []any) (any, error) {
		switch {
		case args[0] == "ping":
			return args[1], nil
		case args[0] == "time":
			return []any{"1700000000", "0"}, nil
		case args[3] == "moving":
			return nil, refusal("ASK 0 127.0.0.1:1")
		}
		return int64(1), nil
	}).node(t)
	there := answers(func(args []any) (any, error) {
		<-silent
		switch args[0] {
		case "ping":
			return args[1], nil
		case "time":
			return []any{"1800000000", "0"}, nil
		case "evalsha":
			return nil, refusal("LATE 1800000000000")
		}
		return "OK", nil
	}).node(t)
	s := NewSender(Config{
		Ctx: t.Context(), Clock: clock.NewSystem(), Nodes: elsewhere{node: there}, Recorder: &trace.Recorder{}, Errors: &redisnode.Errors{},
	})
	b := &batch{node: here, leash: leash{ctx: t.Context()}, claims: make([]claim, 2), scratch: &scratch{}}
	for _, key := range []string{"moving", "staying"} {
		b.calls = append(b.calls, &rpc.Call{Call: scripts.Lock.Look(key, "g1"), From: answered})
	}
	ran := make(chan struct{})
	go func() {
		s.run(b)
		close(ran)
	}()
	assert.Same(t, b.calls[1], (<-answered).Call)
	close(silent)
	assert.Same(t, b.calls[0], (<-answered).Call)
	<-ran
	now := s.Clock.Now()
	assert.Less(t, here.Clock.Time(now).Milliseconds(), int64(1_700_001_000_000))
	assert.Greater(t, there.Clock.Time(now).Milliseconds(), int64(1_799_000_000_000))
}

// When a call is redirected, a second pipeline is sent. Stats and Trace count it like any other pipeline.
func TestRun_CountsWhatFollowsARedirection(t *testing.T) {
	t.Parallel()
	node := func(reply any, refused error) *redisnode.Node {
		return answers(func(args []any) (any, error) {
			switch args[0] {
			case "ping":
				return args[1], nil
			case "time":
				return []any{"1700000000", "0"}, nil
			case "script":
				return "OK", nil
			}
			return reply, refused
		}).node(t)
	}
	here, there := node(nil, refusal("MOVED 0 127.0.0.1:1")), node(int64(1), nil)
	var seen []trace.Exchanged
	system := clock.NewSystem()
	recorder := trace.New(system, &trace.Trace{Exchanged: func(x trace.Exchanged) { seen = append(seen, x) }}, nil)
	s := NewSender(Config{Ctx: t.Context(), Clock: system, Nodes: elsewhere{node: there}, Recorder: recorder, Errors: &redisnode.Errors{}})
	answered := make(asker, 1)
	s.run(&batch{
		node: here, leash: leash{ctx: t.Context()}, claims: make([]claim, 1), scratch: &scratch{},
		calls: []*rpc.Call{{Call: scripts.Lock.Look("orders", "g1"), From: answered, Locks: 3}},
	})
	assert.NoError(t, (<-answered).Err)
	stats := recorder.Stats()
	assert.Equal(t, uint64(2), stats.Exchanges)
	assert.Equal(t, uint64(2), stats.Scripts)
	for i := range seen {
		seen[i].Took = 0
	}
	assert.Equal(t, []trace.Exchanged{{Scripts: 1, Locks: 3}, {Scripts: 1, Locks: 3}}, seen)
}
