package actors

import (
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	e := &Engine{ctx: t.Context(), events: newEvents(slog.New(slog.DiscardHandler), nil), clock: NewSystemClock(), policy: Policy{Lease: 30 * time.Second}.withTimes(), renewBatch: 100}
	e.policy.Jitter = func(time.Duration) time.Duration { return 0 }
	var err error
	e.watchdog, err = newWatchdog(e)
	require.NoError(t, err)
	t.Cleanup(func() { e.watchdog.stop(); _ = e.events.finish(e.clock, time.Second) })
	return e, &notes{}
}

// When Redis is back, what could not be renewed is renewed at once; whoever waits for that hears when the last answer is there.
func TestWatchdog_RenewsWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	e, n := newOutage(t)
	w := e.watchdog
	grant := func(name string) *Grant {
		home := &lockState{address: &Address{Kind: scripts.Lock, Name: name, Raw: name}}
		g := newGrant(home, trial{id: name, lease: e.policy.Lease, watched: true}, e.clock.Now()+e.policy.Lease)
		w.keep(g)
		return g
	}
	failed, ended := grant("failed"), grant("ended")
	grant("well")
	w.renewAll(n, []*timerwheel.Timer[*Grant]{&failed.timer, &ended.timer})
	first := n.sent[0].(*scriptCall)
	w.onAnswer(n)
	w.onFailed(n, first.tag.(*renewal), assert.AnError)
	w.drop(ended)
	n.sent = nil

	asker := actor.NewPID("here", "gateway")
	w.onBack(n, redisBack{asker})
	require.Len(t, n.sent, 1)
	again := n.sent[0].(*scriptCall)
	assert.Equal(t, []string{"failed"}, again.tag.(*renewal).grants)
	assert.Equal(t, []*actor.PID{asker}, w.behind)
	w.onAnswer(n)
	assert.Equal(t, goOn{}, n.sent[1])
	assert.Empty(t, w.behind)

	w.onBack(n, redisBack{asker})
	assert.Equal(t, goOn{}, n.sent[2], "nothing failed")
}
