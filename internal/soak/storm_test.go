package soak_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
)

// fault is one thing that goes wrong, of which there are weight in a sum of all weights. It is over when f returns.
type fault struct {
	weight int
	f      func(w *world, p *process, ctx context.Context)
}

var ofProcesses = []fault{
	{10, func(_ *world, p *process, _ context.Context) { p.proxy.Cut() }},
	{10, func(_ *world, p *process, _ context.Context) { p.proxy.DropReplies(1 + rand.IntN(3)) }},
	{10, func(_ *world, p *process, ctx context.Context) {
		p.proxy.SwallowReplies(true)
		pause(ctx, rand.N(lease))
		p.proxy.SwallowReplies(false)
	}},
	{10, func(_ *world, p *process, ctx context.Context) {
		p.proxy.Blackhole(true)
		pause(ctx, rand.N(2*lease))
		p.proxy.Blackhole(false)
	}},
	{10, func(_ *world, p *process, ctx context.Context) {
		d := faultproxy.Direction(rand.IntN(2))
		p.proxy.Delay(d, rand.N(lease))
		pause(ctx, rand.N(lease))
		p.proxy.Delay(d, 0)
	}},
	{5, func(_ *world, p *process, ctx context.Context) {
		p.proxy.Refuse(true)
		p.proxy.Cut()
		pause(ctx, rand.N(lease))
		p.proxy.Refuse(false)
	}},
	{2, func(w *world, p *process, _ context.Context) {
		w.end(p)
		w.start(p)
	}},
}

var ofTheServer = []fault{
	{10, func(w *world, _ *process, ctx context.Context) { w.redis.ClientKillByFilter(ctx, "TYPE", "pubsub") }},
	{5, func(w *world, _ *process, ctx context.Context) {
		w.redis.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes")
	}},
	{10, func(w *world, _ *process, ctx context.Context) { w.redis.ScriptFlush(ctx) }},
	{5, func(w *world, _ *process, ctx context.Context) {
		w.redis.Do(ctx, "client", "pause", rand.IntN(300), "all")
	}},
	{5, func(w *world, _ *process, ctx context.Context) {
		w.server.Pause()
		pause(ctx, rand.N(lease))
		w.server.Resume()
	}},
	{2, func(w *world, _ *process, ctx context.Context) {
		w.server.Kill()
		pause(ctx, rand.N(lease/2))
		w.server.Restart()
	}},
}

// storm has something go wrong all the time, on a link and at the server. When it ends, nothing is wrong any more.
func (w *world) storm(ctx context.Context) {
	var group sync.WaitGroup
	for _, faults := range [][]fault{ofProcesses, ofTheServer} {
		group.Go(func() {
			for pause(ctx, rand.N(500*time.Millisecond)) {
				oneOf(faults).f(w, w.processes[rand.IntN(len(w.processes))], ctx)
				w.counts.faults.Add(1)
			}
		})
	}
	group.Wait()
	for _, p := range w.processes {
		p.proxy.Heal()
	}
}

func oneOf(faults []fault) fault {
	sum := 0
	for _, f := range faults {
		sum += f.weight
	}
	n := rand.IntN(sum)
	i := slices.IndexFunc(faults, func(f fault) bool { n -= f.weight; return n < 0 })
	return faults[i]
}
