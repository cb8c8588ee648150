package sim_test

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/sim"
)

var (
	seed  = flag.Uint64("sim.seed", 0, "run the world of this seed alone, and print its history with -v")
	first = flag.Uint64("sim.first", 1, "the first of the seeds")
	wires = flag.Bool("sim.wires", false, "show every message in histories")
	count = flag.Int("sim.count", 0, "how many seeds to run; 0 means as many as fit the kind of run")
)

// TestMain uses one processor, which leaves fewer orders for goroutines that are ready at the same instant.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	locktest.Main(m)
}

// run runs the world of a seed in a bubble. A world that is blocked for ever ends the test process and shows the seed.
func run(t *testing.T, seed uint64, mutant sim.Mutant) (report sim.Report) {
	t.Helper()
	defer func() {
		if reason := recover(); reason != nil {
			panic(fmt.Sprintf("seed %d: %v", seed, reason))
		}
	}()
	synctest.Test(t, func(*testing.T) { report = sim.Run(seed, mutant, *wires) })
	return report
}

// TestSim runs the worlds of many seeds, or of one: go test ./internal/sim -run TestSim -sim.seed=123 -v
func TestSim(t *testing.T) {
	if *seed != 0 {
		report := run(t, *seed, named(*only))
		t.Logf("%s\n%s%s", report.Plan, report.History, summary(report))
		assert.Empty(t, report.Violations)
		return
	}
	seeds := *count
	if seeds == 0 {
		seeds = locktest.Scaled(800, 40)
	}
	all := total{counted: map[string]int{}, disturbed: map[string]int{}}
	for s := range uint64(seeds) {
		report := run(t, *first+s, sim.Mutant{})
		all.add(report)
		if !assert.Empty(t, report.Violations, "%s: go test ./internal/sim -run TestSim -sim.seed=%d -v", report.Plan, *first+s) {
			if all.bad++; all.bad == 10 {
				break
			}
		}
	}
	t.Logf("%d worlds, %d grants, %d overlaps after a loss, longest wait after healing %v, at most %d instants, %d with violations\ngrants %v\nfaults %v",
		all.worlds, all.grants, all.overlaps, all.longest, all.instants, all.bad, all.counted, all.disturbed)
}

// named returns the mutant with this name; for "" the one that breaks nothing.
func named(name string) sim.Mutant {
	all := slices.Concat([]sim.Mutant{{}}, sim.ScriptMutants, sim.RuntimeMutants)
	m := all[max(slices.IndexFunc(all, func(m sim.Mutant) bool { return m.Name == name }), 0)]
	if *sound {
		return m.Sound()
	}
	return m
}

func summary(r sim.Report) string {
	return fmt.Sprintf("hash %016x, %d grants, %d faults, %d overlaps excused, longest wait after healing %v, violations %q",
		r.Hash, r.Grants, r.Faults, r.Overlaps, r.Longest, r.Violations)
}

type total struct {
	worlds, grants, overlaps, bad, instants int
	longest                                 time.Duration
	counted, disturbed                      map[string]int
}

func (a *total) add(r sim.Report) {
	a.worlds++
	a.grants += r.Grants
	for kind, n := range r.Counted {
		a.counted[kind] += n
	}
	for fault, n := range r.Disturbed {
		a.disturbed[fault] += n
	}
	a.overlaps += r.Overlaps
	a.longest, a.instants = max(a.longest, r.Longest), max(a.instants, r.Instants)
}
