package sim_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
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
	count = flag.Int("sim.count", 0, "how many seeds; 0: as many as fit the kind of run")
)

// TestMain: with one processor there are fewer orders for goroutines that are ready at the same instant.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	locktest.Main(m)
}

// run runs the world of a seed in a bubble. A world that stands still, or in which nobody can ever go on, ends the process with the seed.
func run(t *testing.T, seed uint64, mutant sim.Mutant) (report sim.Report) {
	t.Helper()
	hangs := time.AfterFunc(locktest.Patience, func() {
		stacks := make([]byte, 1<<20)
		_, _ = fmt.Fprintf(os.Stderr, "seed %d stands still\n%s\n", seed, stacks[:runtime.Stack(stacks, true)])
		os.Exit(2)
	})
	defer hangs.Stop()
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
		report := run(t, *seed, sim.Mutant{})
		t.Logf("%s\n%s%s", report.Plan, report.History, summary(report))
		assert.Empty(t, report.Violations)
		return
	}
	seeds := *count
	if seeds == 0 {
		seeds = locktest.Scaled(1200, 60)
	}
	var all total
	for s := range uint64(seeds) {
		report := run(t, *first+s, sim.Mutant{})
		all.add(report)
		if !assert.Empty(t, report.Violations, "%s: go test ./internal/sim -run TestSim -sim.seed=%d -v", report.Plan, *first+s) {
			if all.bad++; all.bad == 10 {
				break
			}
		}
	}
	t.Logf("%+v", all)
}

func summary(r sim.Report) string {
	return fmt.Sprintf("hash %016x, %d grants, %d faults, %d overlaps excused, longest wait after healing %v, violations %q",
		r.Hash, r.Grants, r.Faults, r.Overlaps, r.Longest, r.Violations)
}

type total struct {
	worlds, grants, faults, overlaps, bad int
	longest                               time.Duration
}

func (a *total) add(r sim.Report) {
	a.worlds++
	a.grants += r.Grants
	a.faults += r.Faults
	a.overlaps += r.Overlaps
	a.longest = max(a.longest, r.Longest)
}

// Each mutant is noticed in less than 500 worlds; a short run leaves out those that take long.
func TestSim_NoticesMutants(t *testing.T) {
	worlds := locktest.Scaled(500, 25)
	for _, mutant := range sim.Mutants {
		t.Run(mutant.Name, func(t *testing.T) {
			if mutant.Rare && worlds < 500 {
				t.Skip("it needs hundreds of worlds")
			}
			for s := range uint64(worlds) {
				if report := run(t, *first+s, mutant); len(report.Violations) > 0 {
					t.Logf("in world %d: %s", s+1, report.Violations[0])
					return
				}
			}
			assert.Fail(t, "not noticed")
		})
	}
}

// once are the seeds of worlds in which something was wrong once: of the runtime, or of the simulation.
var once = []uint64{
	59, 80, // two histories
	109, 215, 229, 253, // results of requests are kept a minute for their repeats
	112, 236, 420, 496, 510, // a lease may be younger than its grant, which the server has forgotten
	40992, // a server that refuses the release of who is closing
	4418,  // a re-entry has the token of its lease
	737,   // the reply to a handshake was lost
}

func TestSim_Once(t *testing.T) {
	for _, s := range once[:locktest.Scaled(len(once), 4)] {
		assert.Empty(t, run(t, s, sim.Mutant{}).Violations, "-sim.seed=%d", s)
	}
}
