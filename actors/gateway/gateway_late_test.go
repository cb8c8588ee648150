package gateway

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/scripts"
)

// stillClock always shows the time that it is set to, and its timers never fire.
type stillClock struct{ now time.Duration }

func (c *stillClock) Now() time.Duration { return c.now }

func (*stillClock) AfterFunc(time.Duration, func()) clock.Timer { return idleTimer{} }

type idleTimer struct{}

func (idleTimer) Stop() bool               { return true }
func (idleTimer) Reset(time.Duration) bool { return true }

// lateGateway is a gateway whose batches end in the way that a test chooses.
type lateGateway struct {
	*gateway
	sent  []message
	clock *stillClock
	pause func(failures int) time.Duration
}

// newLateGateway makes a lateGateway with the given number of waiting calls.
func newLateGateway(t *testing.T, calls int) *lateGateway {
	g := &lateGateway{clock: &stillClock{now: time.Minute}, pause: func(int) time.Duration { return time.Millisecond }}
	sender := NewSender(Config{
		Ctx: t.Context(), Clock: g.clock, Recorder: trace.New(g.clock, nil, nil), Lease: 30 * time.Second, Pause: func(failures int) time.Duration { return g.pause(failures) },
	})
	g.gateway = newGateway(sender, newSilentNode(t), Options{RenewalsFirst: true})
	g.free = 1
	for range calls {
		g.waiting.push(&rpc.Call{Timing: rpc.Patient(g.clock.now, 2*time.Second, 10*time.Second)})
	}
	return g
}

// advance records the messages that the gateway would send.
func (g *lateGateway) advance() { g.sent = append(g.sent, g.gateway.advance()...) }

// next returns the batch that the gateway sends now, or nil if it sends none.
func (g *lateGateway) next() *batch {
	g.advance()
	select {
	case b := <-g.jobs:
		return b
	default:
		return nil
	}
}

// end ends a batch with this outcome.
func (g *lateGateway) end(b *batch, reached, lost bool) {
	b.reached, b.lost = reached, lost
	g.onDone(b)
}

// A batch without an answer, or with a slow one, counts as an outage. After the outage, the gateway sends nothing until the watchdog resumes the
// gateway.
func TestGateway_LetsRenewalsGoFirst(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]func(g *lateGateway){
		"no answer":         func(g *lateGateway) { g.end(g.next(), false, true); g.end(g.next(), true, false) },
		"an answer in time": func(g *lateGateway) { g.end(g.next(), true, false) },
		"a slow answer": func(g *lateGateway) {
			b := g.next()
			g.clock.now += time.Second
			g.end(b, true, false)
		},
	} {
		g := newLateGateway(t, 1000)
		outage(g)
		if name == "an answer in time" {
			assert.NotNil(t, g.next(), name)
			assert.Empty(t, g.sent, name)
			continue
		}
		assert.Nil(t, g.next(), name)
		assert.Equal(t, []message{{g.sender.Renewer, Recovered{g.gateway}}}, g.sent, name)
		g.outage.pausedUntil = 0
		assert.NotNil(t, g.next(), name)
	}
}

// The gateway probes a silent Redis with single calls. It sends the first probe at once, and the next ones with back-off. The other calls stay in
// line, and are sent in their order after a probe has been answered.
func TestGateway_ProbesWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	g := newLateGateway(t, 1000)
	g.pause = func(failures int) time.Duration {
		return min(10*time.Millisecond<<failures, 999*time.Millisecond) + time.Millisecond
	}
	b := g.next()
	require.Len(t, b.calls, batchMax)
	g.end(b, false, true)
	for _, pause := range []time.Duration{0, 20, 40, 80, 160, 320, 640, 999, 999} { // milliseconds; the first probe leaves at once
		if pause *= time.Millisecond; pause > 0 {
			assert.Nil(t, g.next())
			g.clock.now += pause
			assert.Nil(t, g.next(), "%v is too early", pause)
			g.clock.now += time.Millisecond
		}
		probe := g.next()
		require.NotNil(t, probe)
		require.Len(t, probe.calls, 1)
		assert.Nil(t, g.next(), "one at a time")
		g.end(probe, false, true)
	}
	g.clock.now += time.Second
	probe, waiting := g.next(), g.waiting.rest[0]
	g.end(probe, true, false)
	g.outage.pausedUntil = 0
	b = g.next()
	require.Len(t, b.calls, batchMax)
	assert.Same(t, waiting, b.calls[0])
	assert.Equal(t, g.clock.now, b.calls[0].Since, "its patience counts from the moment at which it is sent")
	assert.Equal(t, g.clock.now+2*time.Second, b.calls[0].Deadline, "it has its whole window")
}

// A server that refuses writes is probed with full batches, because calls that only read may succeed.
func TestGateway_ProbesARefusingServerWithBatches(t *testing.T) {
	t.Parallel()
	g := newLateGateway(t, 1000)
	for range 2 {
		g.end(g.next(), false, false)
	}
	assert.Nil(t, g.next())
	g.clock.now += 25 * time.Millisecond
	assert.Len(t, g.next().calls, batchMax)
}

// A batch that was given up is not counted again when it fails later. If a newer batch has been served since, the late failure does not count as a
// new outage.
func TestGateway_OutageIsToldByTheNewestBatch(t *testing.T) {
	t.Parallel()
	g := newLateGateway(t, 1000)
	old := g.next()
	g.stuck = StuckMax // so that the batch's worker is not replaced
	g.clock.now += 3 * time.Second
	g.giveUp(old, g.clock.now)
	assert.Equal(t, 1, g.outage.vain)
	g.free = 1 // another worker is free again
	probe := g.next()
	require.Len(t, probe.calls, 1)
	g.end(probe, true, false)
	g.end(old, false, true)
	assert.Zero(t, g.outage.vain)
	g.outage.pausedUntil = 0
	assert.Len(t, g.next().calls, batchMax)
}

// A new worker replaces a hanging one. When the hanging worker returns, there is one worker too many, and one of the two ends. The returned worker no
// longer counts towards StuckMax.
func TestGateway_HangingWorkersComeBack(t *testing.T) {
	t.Parallel()
	g := newLateGateway(t, 3*StuckMax*batchMax)
	for range 3 * StuckMax {
		b := g.next()
		require.NotNil(t, b)
		b.given = true // as giveUp does
		g.remove(b)
		g.stuck++
		g.free++ // the replacement
		g.end(b, true, false)
		require.Zero(t, g.stuck)
		require.Equal(t, 1, g.free)
		require.Nil(t, <-g.jobs, "one of the two workers ends")
		g.outage.pausedUntil = 0
	}
}

// Each batch in flight has its own context. When the gateway gives up a batch, only the context of that batch ends.
func TestGateway_GivingUpEndsOneBatchAlone(t *testing.T) {
	t.Parallel()
	g := newLateGateway(t, 4*batchMax)
	g.free = 2
	healthy := g.next()
	hangs := <-g.jobs
	g.end(healthy, true, false)
	again := g.next()
	require.NotNil(t, again)
	assert.Equal(t, healthy.ctx, again.ctx, "the healthy batch has ended, so its context is used again")
	g.stuck = StuckMax // so that no worker is started
	g.giveUp(hangs, hangs.due)
	assert.Error(t, hangs.ctx.Err())
	assert.NoError(t, again.ctx.Err())
	g.end(again, true, false)
	g.free = 3
	for b := g.next(); b != nil; b = g.next() {
		assert.NoError(t, b.ctx.Err())
	}
}

// Waiting calls are refused when Redis has been silent for as long as their patience, but not while it answers other calls.
func TestGateway_RefusesWhenRedisIsSilent(t *testing.T) {
	t.Parallel()
	g := newLateGateway(t, 1000)
	refused := func() (n int) {
		g.sent = nil
		g.check()
		g.advance()
		for _, m := range g.sent {
			if r, ok := m.content.(*rpc.Result); ok && r.Class == scripts.Refused {
				n++
			}
		}
		return n
	}
	g.end(g.next(), true, false)
	for range 20 { // a backlog that takes longer than the patience of a call
		b := g.next()
		g.clock.now += time.Second - time.Millisecond
		assert.Zero(t, refused())
		g.waiting.push(&rpc.Call{Timing: rpc.Patient(g.clock.now, 2*time.Second, 10*time.Second)})
		if g.end(b, true, false); g.outage.pausedUntil > 0 {
			g.outage.pausedUntil = 0
		}
		if g.waiting.len() < batchMax {
			break
		}
	}
	left := g.waiting.len()
	require.Positive(t, left)
	g.clock.now += 10*time.Second + time.Millisecond
	assert.Equal(t, left, refused())
	assert.Zero(t, g.waiting.len())
}

// On a cluster, calls that wait for a master go back to the clusterGateway when another master has their keys.
func TestGateway_ReturnsStrays(t *testing.T) {
	t.Parallel()
	g := newLateGateway(t, 0)
	g.cluster = &clusterGateway{}
	other := newSilentNode(t)
	g.sender.Nodes = &oneNode{node: g.node}
	for range 3 {
		call := &rpc.Call{Timing: rpc.Patient(g.clock.now, 2*time.Second, 10*time.Second)}
		call.Call = scripts.Lock.Inspect("orders")
		g.waiting.push(call)
	}
	g.outage.vain, g.outage.silent = 1, true
	require.Len(t, g.next().calls, 1)
	g.free, g.sender.Nodes = 1, &oneNode{node: other}
	assert.Nil(t, g.next())
	assert.Len(t, g.sent, 2)
	assert.Zero(t, g.waiting.len())
}

// While the workers of a silent master hang, the gateway looks up the masters again from time to time. So the waiting calls go to the new master
// before any worker has returned.
func TestGateway_ReturnsStraysWhileWorkersHang(t *testing.T) {
	t.Parallel()
	for name, hanging := range map[string]func(g *lateGateway){
		"the first one": func(*lateGateway) {},
		"all": func(g *lateGateway) {
			g.outage.vain, g.outage.silent, g.stuck = 1+StuckMax, true, StuckMax
		},
	} {
		g := newLateGateway(t, 0)
		g.cluster = &clusterGateway{}
		nodes := &oneNode{node: g.node}
		g.sender.Nodes = nodes
		push := func() {
			call := &rpc.Call{Timing: rpc.Patient(g.clock.now, 2*time.Second, 10*time.Second)}
			call.Call = scripts.Lock.Inspect("orders")
			g.waiting.push(call)
		}
		push()
		require.NotNil(t, g.next(), name)
		hanging(g)
		push()
		g.advance()
		looked := nodes.suspects
		for range 3 {
			require.LessOrEqual(t, g.checkAt, g.clock.now+lookWait, "%s: the masters are looked up again", name)
			g.clock.now = g.checkAt
			g.check()
			g.advance()
			assert.Equal(t, looked+1, nodes.suspects, name)
			looked = nodes.suspects
		}
		assert.Empty(t, g.sent, name)
		nodes.node = newSilentNode(t)
		g.clock.now = g.checkAt
		g.check()
		g.advance()
		assert.Len(t, g.sent, 1, name)
		assert.Zero(t, g.waiting.len(), name)
	}
}

// newSilentNode makes a node to which nothing is sent.
func newSilentNode(t *testing.T) *redisnode.Node {
	client := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return redisnode.NewNode(client, time.Second)
}

// oneNode stands for a cluster in which one node has every key.
type oneNode struct {
	redisnode.Nodes
	node     *redisnode.Node
	suspects int // calls of Suspect
}

func (o *oneNode) ForKey(string) *redisnode.Node { return o.node }
func (o *oneNode) Suspect()                      { o.suspects++ }
