package actors

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/gateway"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
	"github.com/holdfast-go/holdfast/timerwheel"
)

// notes are what an actor sends.
type notes struct {
	actor.Context
	sent []any
}

func (n *notes) Self() *actor.PID               { return nil }
func (n *notes) Send(_ *actor.PID, message any) { n.sent = append(n.sent, message) }

func newOutage(t *testing.T) (*Engine, *notes) {
	e := &Engine{ctx: t.Context(), events: outbox.NewEvents(slog.New(slog.DiscardHandler), nil), clock: clock.NewSystem(), policy: wait.Policy{Lease: 30 * time.Second}.WithTimes(), renewBatch: 100}
	e.policy.Jitter = func(time.Duration) time.Duration { return 0 }
	var err error
	e.watchdog, err = newWatchdog(e)
	require.NoError(t, err)
	t.Cleanup(func() { e.watchdog.stop(); _ = e.events.Finish(e.clock, time.Second) })
	return e, &notes{}
}

// newKept is a grant that the watchdog of e renews.
func newKept(e *Engine, name string) *lease.Grant {
	g := &lease.Grant{
		Address: &lease.Address{Kind: scripts.Lock, Name: name, Raw: name}, ID: name, Lease: e.policy.Lease, Watched: true,
		Actor: actor.NewPID("here", name),
	}
	g.Begin(e.clock.Now() + e.policy.Lease)
	return g
}

// When Redis is back, what could not be renewed is renewed at once; whoever waits for that hears when the last answer is there.
func TestWatchdog_RenewsWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	e, n := newOutage(t)
	w := e.watchdog
	grant := func(name string) *lease.Grant {
		g := newKept(e, name)
		w.keep(g)
		return g
	}
	failed, ended := grant("failed"), grant("ended")
	grant("well")
	w.renewAll(n, []*timerwheel.Timer[*lease.Grant]{&failed.Timer, &ended.Timer}, e.renewBatch)
	first := n.sent[0].(*rpc.Call)
	w.onAnswer(n)
	w.onFailed(n, first.Tag.(*renewal), assert.AnError)
	w.drop(ended)
	n.sent = nil

	asker := actor.NewPID("here", "gateway")
	w.onBack(n, gateway.Recovered{From: asker})
	require.Len(t, n.sent, 1)
	again := n.sent[0].(*rpc.Call)
	assert.Equal(t, []string{"failed"}, again.Tag.(*renewal).grants)
	assert.Equal(t, []*actor.PID{asker}, w.behind)
	w.onAnswer(n)
	assert.Equal(t, gateway.Resume{}, n.sent[1])
	assert.Empty(t, w.behind)

	w.onBack(n, gateway.Recovered{From: asker})
	assert.Equal(t, gateway.Resume{}, n.sent[2], "nothing failed")
}

// A renewal that was sent before Redis came back, and fails after that, is repeated at once: the others wait for it, too.
func TestWatchdog_RepeatsWhatOverlappedTheRecovery(t *testing.T) {
	t.Parallel()
	e, n := newOutage(t)
	e.renewals = theRenewals
	w := e.watchdog
	g := newKept(e, "orders")
	w.keep(g)
	require.True(t, w.wheel.Cancel(&g.Timer))
	w.renewAll(n, []*timerwheel.Timer[*lease.Grant]{&g.Timer}, e.renewBatch)
	asker := actor.NewPID("here", "gateway")
	w.onBack(n, gateway.Recovered{From: asker})
	fail := func(sent any) {
		w.Receive(delivery{n, &rpc.Result{Call: sent.(*rpc.Call), Class: scripts.Unknown, Err: assert.AnError}})
	}
	fail(n.sent[0])
	require.Len(t, n.sent, 2)
	again := n.sent[1].(*rpc.Call)
	assert.Equal(t, []string{"orders"}, again.Tag.(*renewal).grants)
	assert.Equal(t, []*actor.PID{asker}, w.behind, "the gateway waits for it")
	fail(again)
	assert.Len(t, n.sent, 2, "the next one has its pause")
	assert.Empty(t, w.behind)
}

// delivery is an actor's context with a message.
type delivery struct {
	*notes
	message any
}

func (d delivery) Message() any { return d.message }

// Send notes only what goes to the renewals' gateway.
func (d delivery) Send(pid *actor.PID, message any) {
	if pid == theRenewals {
		d.notes.Send(pid, message)
	}
}

var theRenewals = actor.NewPID("here", "renewals")

// Renewals wait behind nobody: no lane has their gateway.
func TestEngine_RenewalsHaveAGatewayOfTheirOwn(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	e, err := Start(Config{
		Client: client, ID: "f4a0c9de-8f0f-4d4e-b7b9-5d1c3b1d2e4f", Policy: wait.Policy{Lease: time.Minute, HandoffMax: 1, MaxWaiters: 1}, RenewBatch: 1,
		Logger: slog.New(slog.DiscardHandler), Jitter: func(time.Duration) time.Duration { return 0 },
	})
	require.NoError(t, err)
	for i := range e.lanes {
		assert.False(t, e.renewals.Equal(e.lanes[i].gateway), "lane %d", i)
		assert.False(t, e.renewals.Equal(e.lanes[i].acquires), "lane %d", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	assert.NoError(t, e.Close(ctx))
}

// What is due at once is renewed by few scripts, none of them for more keys than Options.RenewBatch.
func TestWatchdog_RenewsManyByOneScript(t *testing.T) {
	t.Parallel()
	e, n := newOutage(t)
	e.renewals = theRenewals
	const grants = 250
	var due []*timerwheel.Timer[*lease.Grant]
	for i := range grants {
		id := strconv.Itoa(i)
		g := newKept(e, id)
		e.watchdog.keep(g)
		due = append(due, &g.Timer)
	}
	e.watchdog.Receive(delivery{n, grantsDue{due}})
	var sizes []int
	seen := map[string]bool{}
	for _, m := range n.sent {
		ids := m.(*rpc.Call).Tag.(*renewal).grants
		sizes = append(sizes, len(ids))
		for _, id := range ids {
			seen[id] = true
		}
	}
	assert.Equal(t, []int{100, 100, 50}, sizes, "RenewBatch is 100")
	assert.Len(t, seen, grants)
}
