package watchdog

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/gateway"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/scripts"
	"github.com/holdfast-go/holdfast/timerwheel"
)

// sent is the watchdog's context with one message. It records the renewals that a gateway gets, and counts how often a gateway is resumed.
type sent struct {
	actor.Context
	message  any
	renewals []*rpc.Call
	resumed  int
}

func (s *sent) Message() any { return s.message }

// nobody is the actor of a lock, and ignores its messages.
type nobody struct{}

func (nobody) Send(any) {}

// gateways stands for all gateways.
type gateways struct{ *sent }

func (g gateways) Submit(c *rpc.Call)    { g.renewals = append(g.renewals, c) }
func (g gateways) Run(c *rpc.Call)       { g.Submit(c) }
func (g gateways) Resume()               { g.resumed++ }
func (g gateways) Stop() <-chan struct{} { return nil }

// stillClock is a clock that never advances, and whose timers never fire.
type stillClock struct{}

func (stillClock) Now() time.Duration                          { return time.Minute }
func (stillClock) AfterFunc(time.Duration, func()) clock.Timer { return idleTimer{} }

type idleTimer struct{}

func (idleTimer) Stop() bool               { return true }
func (idleTimer) Reset(time.Duration) bool { return true }

// renewalAt returns the n-th renewal that was sent, counted from 0.
func (s *sent) renewalAt(i int) *renewal { return s.renewals[i].Tag.(*renewal) }

// deaf is the process that gets the messages of the wheel, and ignores them.
type deaf struct{}

func (deaf) SendUserMessage(*actor.PID, any)   {}
func (deaf) SendSystemMessage(*actor.PID, any) {}
func (deaf) Stop(*actor.PID)                   {}

// newWatchdog makes a watchdog that a test steps by hand. The messages of its wheel are ignored.
func newWatchdog(t *testing.T) (*Watchdog, *sent) {
	events := outbox.NewEvents(slog.New(slog.DiscardHandler), nil)
	system, s := actor.NewActorSystem(), &sent{}
	w, err := New(Config{
		Clock: stillClock{}, Root: system.Root, Events: events, Recorder: trace.New(stillClock{}, nil, events.Emit), Site: &scripts.Site{}, Gateway: gateways{s},
		Lease: 24 * time.Hour, Batch: 100, Jitter: func(time.Duration) time.Duration { return 0 }, Nudged: func() {},
	})
	require.NoError(t, err)
	w.Self, _ = system.ProcessRegistry.Add(deaf{}, "watchdog")
	t.Cleanup(func() {
		w.Stop()
		system.Shutdown()
		_ = events.Finish(clock.NewSystem(), time.Second)
	})
	return w, s
}

// keepNew makes a grant and gives it to the watchdog.
func (w *Watchdog) keepNew(name string) *lease.Grant {
	g := &lease.Grant{
		Address: &lease.Address{Kind: scripts.Lock, Name: name, Raw: name}, ID: name, Lease: w.Lease, Watched: true,
		Actor: nobody{},
	}
	g.Begin(w.Clock.Now() + w.Lease)
	w.Keep(g)
	return g
}

// When Redis is back, failed renewals are repeated at once. The gateway resumes once all renewals have been answered.
func TestWatchdog_RenewsWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	w, s := newWatchdog(t)
	failed, ended := w.keepNew("failed"), w.keepNew("ended")
	w.keepNew("well")
	w.renewAll([]*timerwheel.Timer[*lease.Grant]{&failed.Timer, &ended.Timer}, w.Batch)
	require.Len(t, s.renewals, 1)
	w.onAnswered()
	w.onFailed(s.renewalAt(0), assert.AnError)
	w.Drop(ended)

	w.onRecovered(gateway.Recovered{From: gateways{s}})
	require.Len(t, s.renewals, 2)
	assert.Equal(t, []string{"failed"}, s.renewalAt(1).grants)
	assert.Zero(t, s.resumed, "the renewal has no answer yet")
	w.onAnswered()
	assert.Equal(t, 1, s.resumed)

	w.onRecovered(gateway.Recovered{From: gateways{s}})
	assert.Len(t, s.renewals, 2, "nothing failed")
	assert.Equal(t, 2, s.resumed)
}

// If a renewal was sent before Redis came back and fails afterwards, it is repeated at once, because the gateway does not resume before the repeat is
// answered.
func TestWatchdog_RepeatsWhatOverlappedTheRecovery(t *testing.T) {
	t.Parallel()
	w, s := newWatchdog(t)
	g := w.keepNew("orders")
	require.True(t, w.wheel.Cancel(&g.Timer))
	w.renewAll([]*timerwheel.Timer[*lease.Grant]{&g.Timer}, w.Batch)
	w.onRecovered(gateway.Recovered{From: gateways{s}})
	fail := func(c *rpc.Call) {
		s.message = &rpc.Result{Call: c, Class: scripts.Unknown, Err: assert.AnError}
		w.Receive(s)
	}
	fail(s.renewals[0])
	require.Len(t, s.renewals, 2)
	assert.Equal(t, []string{"orders"}, s.renewalAt(1).grants)
	assert.Zero(t, s.resumed, "the gateway waits for that renewal")
	fail(s.renewals[1])
	assert.Len(t, s.renewals, 2, "the next repeat comes after a pause")
	assert.Equal(t, 1, s.resumed)
}

// Grants that are due together are renewed by few scripts, each for at most Options.RenewBatch keys.
func TestWatchdog_RenewsManyByOneScript(t *testing.T) {
	t.Parallel()
	w, s := newWatchdog(t)
	const grants = 250
	var timers []*timerwheel.Timer[*lease.Grant]
	for i := range grants {
		timers = append(timers, &w.keepNew(strconv.Itoa(i)).Timer)
	}
	s.message = due{timers}
	w.Receive(s)
	var sizes []int
	seen := map[string]bool{}
	for i := range s.renewals {
		ids := s.renewalAt(i).grants
		sizes = append(sizes, len(ids))
		for _, id := range ids {
			seen[id] = true
		}
	}
	assert.Equal(t, []int{100, 100, 50}, sizes, "RenewBatch is 100")
	assert.Len(t, seen, grants)
}

// The nudge calls Nudged, which looks for leaked leases. The nudge is repeated only while a grant is kept.
func TestWatchdog_NudgesWhileItKeepsGrants(t *testing.T) {
	t.Parallel()
	w, s := newWatchdog(t)
	nudged := 0
	w.Nudged = func() { nudged++ }
	g := w.keepNew("kept")
	s.message = due{[]*timerwheel.Timer[*lease.Grant]{&w.nudge}}
	w.Receive(s)
	assert.Equal(t, 1, nudged)
	assert.True(t, w.nudging.Load())

	w.Drop(g)
	s.message = due{[]*timerwheel.Timer[*lease.Grant]{&w.nudge}}
	w.Receive(s)
	assert.Equal(t, 2, nudged)
	assert.False(t, w.nudging.Load())
}

// The duration of a renewal without an answer counts from its submission, not from the start of the runtime.
func TestWatchdog_TellsHowLongARenewalTook(t *testing.T) {
	t.Parallel()
	w, s := newWatchdog(t)
	var told []trace.Renewed
	w.Recorder = trace.New(stillClock{}, &trace.Trace{Renewed: func(r trace.Renewed) { told = append(told, r) }}, nil)
	g := w.keepNew("orders")
	require.True(t, w.wheel.Cancel(&g.Timer))
	w.renewAll([]*timerwheel.Timer[*lease.Grant]{&g.Timer}, w.Batch)
	s.message = &rpc.Result{Call: s.renewals[0], Class: scripts.Unknown, Err: assert.AnError}
	w.Receive(s)
	require.Len(t, told, 1)
	assert.Error(t, told[0].Err)
	assert.Zero(t, told[0].Took)
}
