package soak_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/chaos"
)

// ofProcess returns the faults of a process and its links.
func (w *world) ofProcess(p *process) []chaos.Fault {
	return append(slices.Clone(chaos.Links), chaos.Fault{Name: "end and start", Weight: 2, Do: func(context.Context, chaos.Target) {
		w.end(p)
		w.start(p)
	}})
}

// troubles returns the faults of a server that loses no data.
func (a alone) troubles(w *world) []chaos.Fault {
	return append(slices.Clone(chaos.Servers), w.rotation(),
		chaos.Fault{Name: "killed server", Weight: 2, Do: func(ctx context.Context, _ chaos.Target) {
			a.server.Kill()
			chaos.Pause(ctx, rand.N(lease/2))
			a.server.Restart()
			w.password.set(w)
		}})
}

func (a alone) target(dice *rand.Rand) chaos.Target {
	return chaos.Target{Dice: dice, Server: a.server, Redis: a.look, Most: lease}
}

// storm injects faults into the processes, their links and the servers until ctx ends. When it returns, all faults are over.
func (w *world) storm(ctx context.Context) {
	var group sync.WaitGroup
	often := func(f func(dice *rand.Rand)) {
		group.Go(func() {
			for dice := chaos.Dice(); chaos.Pause(ctx, rand.N(500*time.Millisecond)); {
				f(dice)
				w.counts.faults.Add(1)
			}
		})
	}
	often(func(dice *rand.Rand) {
		p := w.processes[rand.IntN(len(w.processes))]
		w.disturbs(p)
		chaos.Choose(dice, w.ofProcess(p)).Do(ctx, chaos.Target{Dice: dice, Link: p.link(), Most: lease})
	})
	often(func(dice *rand.Rand) {
		w.meter.read(w.stage.everyone())
		w.disturbs(w.processes...)
		w.trouble(dice).Do(ctx, w.stage.target(dice))
	})
	group.Wait()
	for _, p := range w.processes {
		for _, link := range p.links {
			link.Heal()
		}
	}
}

// trouble returns the next fault of the servers. The first calls return each fault once, so that even a short run has all of them. Later calls return
// random faults.
func (w *world) trouble(dice *rand.Rand) chaos.Fault {
	if w.begun++; w.begun <= len(w.troubles) {
		return w.troubles[w.begun-1]
	}
	return chaos.Choose(dice, w.troubles)
}
