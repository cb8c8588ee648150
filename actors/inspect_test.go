package actors

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/gateway"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// fakeGateway answers calls with the given results, in this order. If no result is left, the test must answer.
type fakeGateway struct {
	gateway.Gateway
	results    []rpc.Result
	calls      []*rpc.Call
	unanswered chan *rpc.Call
}

func (g *fakeGateway) Submit(c *rpc.Call) {
	c.Leave(c.Asked, 0)
	g.calls = append(g.calls, c)
	if len(g.results) == 0 {
		g.unanswered <- c
		return
	}
	result := g.results[0]
	g.results = g.results[1:]
	c.From.Send(c.Answer(result))
}

// inspectEngine returns an engine that has one actor, for the lock that is returned, and that makes its calls through a fake gateway.
func inspectEngine(results ...rpc.Result) (*Engine, *lease.Address, *received, *fakeGateway) {
	r, m, got := newTestRegistry()
	e, g := r.engine, &fakeGateway{results: results, unanswered: make(chan *rpc.Call, 1)}
	e.policy.Lease = 30 * time.Second
	e.ctx, e.cancel = context.WithCancel(context.Background())
	m.shard.lane.gateway = g
	return e, orders, got, g
}

func noReply(class scripts.Class, text string) rpc.Result {
	return rpc.Result{Class: class, Err: errors.New(text)}
}

func TestEngine_Inspect(t *testing.T) {
	t.Parallel()
	e, a, got, _ := inspectEngine(rpc.Result{Reply: []any{int64(5), "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1"}}, noReply(scripts.Unknown, "no answer"), rpc.Result{Reply: "?"})
	state, err := e.Inspect(t.Context(), a)
	require.NoError(t, err)
	assert.Equal(t, []protocol.Holder{{ID: "8743c9c0-0795-4907-87fd-6c719a6b4586:1", Holds: 1}}, state.Holders)
	assert.Equal(t, 7, state.Waiting, "the lock's actor says who waits here")
	_, err = e.Inspect(t.Context(), a)
	require.EqualError(t, err, `holdfast: inspect "orders": no answer`)
	_, err = e.Inspect(t.Context(), a)
	require.ErrorContains(t, err, `holdfast: inspect "orders": `)
	assert.Empty(t, got.messages)
}

func TestEngine_ForceRelease(t *testing.T) {
	t.Parallel()
	freed := wait.Freed{Grants: []string{"peer:1"}, Reason: protocol.LossForceReleased}
	for what, test := range map[string]struct {
		result rpc.Result
		err    string
		told   any // what the actor of the lock is told
	}{
		"a free lock":   {result: rpc.Result{Reply: int64(0)}},
		"a held lock":   {result: rpc.Result{Reply: []any{"peer:1"}}, told: freed},
		"a foreign key": {noReply(scripts.Rejected, "FOREIGN a list"), `holdfast: force-release "orders": key holds something else: a list`, nil},
		"no answer":     {noReply(scripts.Unknown, "no answer"), "outcome unknown, the lock may be free or not: no answer", wait.LookAround{}},
		"a bad answer":  {rpc.Result{Reply: "?"}, "outcome unknown, the lock may be free or not: ", wait.LookAround{}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e, a, got, g := inspectEngine(test.result)
			held, err := e.ForceRelease(t.Context(), a)
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.err)
			}
			assert.Equal(t, what == "a held lock", held)
			assert.Len(t, g.calls, 1, "it is not repeated: it could end the next holder's lease")
			if test.told == nil {
				assert.Empty(t, got.messages)
			} else {
				assert.Equal(t, []any{routed{test.told}}, got.messages)
			}
		})
	}
}

// A lock of another kind may hold the key. Its actor may be busy, so the message alone is not enough: ForceRelease must not return before the holders
// know that their leases have ended.
func TestEngine_ForceReleaseWaitsForAllKindsOfLock(t *testing.T) {
	t.Parallel()
	e, a, got, _ := inspectEngine(rpc.Result{Reply: []any{"peer:1"}})
	_, other := addTestActor(e.registry, &lease.Address{Kind: scripts.FairLock, Name: a.Name, Raw: a.Raw})
	_, err := e.ForceRelease(t.Context(), a)
	require.NoError(t, err)
	for _, told := range []*received{got, other} {
		assert.Equal(t, []any{routed{wait.Freed{Grants: []string{"peer:1"}, Reason: protocol.LossForceReleased}}}, told.messages)
		assert.Equal(t, 1, told.queries)
	}
}

// Permits that are released by their ids end leases that another actor has, and that actor may be busy.
func TestEngine_CountWaitsForHolders(t *testing.T) {
	t.Parallel()
	e, _, _, _ := inspectEngine()
	permits := &lease.Address{Kind: scripts.PermitSemaphore, Name: "pool", Raw: "pool"}
	counter, _ := addTestActor(e.registry, permits)
	counter.mailbox.RegisterHandlers(&answering{engine: e}, actor.NewSynchronizedDispatcher(300))
	_, holders := addTestActor(e.registry, &lease.Address{Kind: scripts.Permit, Name: "pool", Raw: "pool"})
	for _, op := range []*scripts.CountOp{scripts.PermitsFree, scripts.PermitsRelease([]string{"p1"})} {
		assert.Zero(t, holders.queries)
		_, err := e.Count(t.Context(), permits, op, 0, false)
		require.NoError(t, err)
	}
	assert.Equal(t, 1, holders.queries)
}

// answering is an actor that answers every request.
type answering struct {
	received
	engine *Engine
}

func (a *answering) InvokeUserMessage(message any) {
	if r, ok := message.(*wait.Request); ok {
		a.engine.answer(r)
		return
	}
	a.received.InvokeUserMessage(message)
}

// If a call came too late only because the server's clock was misjudged, it is made once more, but not twice.
func TestEngine_ForceReleaseThatCameTooLate(t *testing.T) {
	t.Parallel()
	late := noReply(scripts.Refused, "LATE 1700000000000")
	e, a, got, g := inspectEngine(late, rpc.Result{Reply: []any{"peer:1"}}, late, late, late)
	held, err := e.ForceRelease(t.Context(), a)
	require.NoError(t, err)
	assert.True(t, held)
	require.Len(t, g.calls, 2)
	assert.Equal(t, g.calls[0].Timing, g.calls[1].Timing, "the requester waits no longer than for one call")
	_, err = e.ForceRelease(t.Context(), a)
	require.ErrorContains(t, err, "it reached Redis too late to be executed")
	assert.Len(t, g.calls, 4)
	assert.Len(t, got.messages, 1)
}

// After the requester's deadline, a force-release could end the lease of the next holder. After its own window, too.
func TestEngine_ForceReleaseIsNotExecutedLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for limit, last := range map[time.Duration]time.Duration{50 * time.Millisecond: 50 * time.Millisecond, 5 * time.Second: 2 * time.Second} {
			e, a, _, g := inspectEngine(rpc.Result{Reply: int64(0)})
			e.clock = clock.NewSystem()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			asked := e.clock.Now()
			_, err := e.ForceRelease(ctx, a)
			require.NoError(t, err)
			require.Equal(t, asked+last, g.calls[0].NotAfter)
			require.Equal(t, asked+2*time.Second, g.calls[0].Deadline, "the answer may come as late as without a deadline")
		}
	})
}

// The requester gives up, but Redis executes the call all the same: the local holders must learn that.
func TestEngine_ForceReleaseWithoutItsRequester(t *testing.T) {
	t.Parallel()
	e, a, got, g := inspectEngine()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := e.ForceRelease(ctx, a)
		failed <- err
	}()
	call := <-g.unanswered
	cancel()
	require.EqualError(t, <-failed, `holdfast: force-release "orders": context canceled`)
	call.From.Send(call.Answer(rpc.Result{Reply: []any{"x:1"}}))
	e.background.Wait()
	assert.Equal(t, []any{routed{wait.Freed{Grants: []string{"x:1"}, Reason: protocol.LossForceReleased}}}, got.messages)
}

func TestEngine_InspectWhileClosing(t *testing.T) {
	t.Parallel()
	e, a, _, _ := inspectEngine()
	failed := make(chan error)
	go func() {
		_, err := e.Inspect(t.Context(), a)
		failed <- err
	}()
	e.cancel()
	require.ErrorIs(t, <-failed, protocol.ErrClosed)
	e.closing.Store(true)
	_, err := e.Inspect(t.Context(), a)
	require.EqualError(t, err, `holdfast: inspect "orders": runtime closed`)
	e.background.Wait()
}

// A panic harms only the request that was being carried out.
func TestEngine_InspectThatPanics(t *testing.T) {
	t.Parallel()
	e, _, _, _ := inspectEngine()
	reported := make(chan protocol.Event, 1)
	e.events = outbox.NewEvents(slog.New(slog.DiscardHandler), func(event protocol.Event) { reported <- event })
	broken := &scripts.Kind{Name: "broken", Inspect: func(string) scripts.Call { panic("a bug") }}
	_, err := e.Inspect(t.Context(), &lease.Address{Kind: broken, Name: "orders", Raw: "orders"})
	require.ErrorIs(t, err, wait.ErrPanicked)
	require.IsType(t, protocol.ActorPanicked{}, <-reported)
	e.background.Wait()
}
