package soak_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// fault is one thing that goes wrong, of which there are weight in a sum of all weights. It is over when f returns.
type fault struct {
	weight int
	f      func(w *world, p *process, ctx context.Context)
}

var ofProcesses = []fault{
	{10, func(_ *world, p *process, _ context.Context) { p.link().Cut() }},
	{10, func(_ *world, p *process, _ context.Context) { p.link().DropReplies(1 + rand.IntN(3)) }},
	{10, func(_ *world, p *process, ctx context.Context) {
		link := p.link()
		link.SwallowReplies(true)
		pause(ctx, rand.N(lease))
		link.SwallowReplies(false)
	}},
	{10, func(_ *world, p *process, ctx context.Context) {
		link := p.link()
		link.Blackhole(true)
		pause(ctx, rand.N(2*lease))
		link.Blackhole(false)
	}},
	{10, func(_ *world, p *process, ctx context.Context) {
		link, d := p.link(), faultproxy.Direction(rand.IntN(2))
		link.Delay(d, rand.N(lease))
		pause(ctx, rand.N(lease))
		link.Delay(d, 0)
	}},
	{5, func(_ *world, p *process, ctx context.Context) {
		link := p.link()
		link.Refuse(true)
		link.Cut()
		pause(ctx, rand.N(lease))
		link.Refuse(false)
	}},
	{2, func(w *world, p *process, _ context.Context) {
		w.end(p)
		w.start(p)
	}},
}

// ofTheServer is what goes wrong with a server that keeps what it was told.
func ofTheServer(server *redistest.Server, look *redis.Client) []fault {
	return append(ofAnyServer(func() *redistest.Server { return server }, func() *redis.Client { return look }, lease),
		fault{2, func(w *world, _ *process, ctx context.Context) {
			server.Kill()
			pause(ctx, rand.N(lease/2))
			server.Restart()
			w.password.set(w)
		}})
}

// ofAnyServer is what goes wrong with one of several servers without a loss. It stands still for so long at most.
func ofAnyServer(server func() *redistest.Server, look func() *redis.Client, still time.Duration) []fault {
	return []fault{
		{10, func(_ *world, _ *process, ctx context.Context) { look().ClientKillByFilter(ctx, "TYPE", "pubsub") }},
		{5, func(_ *world, _ *process, ctx context.Context) {
			look().ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes")
		}},
		{10, func(_ *world, _ *process, ctx context.Context) { look().ScriptFlush(ctx) }},
		{5, func(_ *world, _ *process, ctx context.Context) {
			look().Do(ctx, "client", "pause", rand.IntN(300), "all")
		}},
		{5, func(_ *world, _ *process, ctx context.Context) {
			one := server()
			one.Pause()
			pause(ctx, rand.N(still))
			one.Resume()
		}},
		{2, rotation},
	}
}

// storm has something go wrong all the time, on a link and at the server. When it ends, nothing is wrong any more.
func (w *world) storm(ctx context.Context) {
	var group sync.WaitGroup
	often := func(f func()) {
		group.Go(func() {
			for pause(ctx, rand.N(500*time.Millisecond)) {
				f()
				w.counts.faults.Add(1)
			}
		})
	}
	often(func() {
		p := w.processes[rand.IntN(len(w.processes))]
		w.disturbs(p)
		oneOf(ofProcesses).f(w, p, ctx)
	})
	often(func() {
		w.meter.read(w.stage.everyone())
		w.disturbs(w.processes...)
		w.trouble().f(w, nil, ctx)
	})
	group.Wait()
	for _, p := range w.processes {
		for _, link := range p.links {
			link.Heal()
		}
	}
}

// trouble is the next one of the servers: each once, so that a short run has all of them, then by chance.
func (w *world) trouble() fault {
	if w.begun++; w.begun <= len(w.troubles) {
		return w.troubles[w.begun-1]
	}
	return oneOf(w.troubles)
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
