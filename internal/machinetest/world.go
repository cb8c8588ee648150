package machinetest

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	oneSeed = flag.Uint64("seed", 0, "run the random model test with this seed alone, and print what happens")
	seeds   = flag.Uint64("seeds", 3000, "how many seeds the random model test runs")
)

// The model's times. The lease is so short that, in comparison, a second is a long time.
const (
	Lease = 300 * time.Millisecond
	Use   = time.Second      // users are active, and the network misbehaves, for this long
	End   = 60 * time.Second // by then everything must have ended
)

// World is what the models of locks and of counters have in common: events in order of time, and random draws.
type World struct {
	Random  *rand.Rand
	Now     time.Duration
	events  eventHeap
	order   int
	steps   int
	Calm    bool // the users have left, and the network has no faults
	Faults  int  // percentage of calls that are hit by a fault
	Panics  int  // percent of new serials (locks) or ids (counters) that make the step panic
	Excused bool // Redis rejected a release, or an actor gave up: keys may stay until they expire
	Trace   func(string)
	Err     error
}

// NewWorld returns a world without events. The seeds determine everything in it.
func NewWorld(seed, other uint64) World {
	return World{Random: rand.New(rand.NewPCG(seed, other))}
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (w *World) Chance(percent int) bool { return w.Random.IntN(100) < percent }

// UpTo returns a random time below d.
func (w *World) UpTo(d time.Duration) time.Duration {
	return time.Duration(w.Random.Int64N(max(int64(d), 1)))
}

func (w *World) After(d time.Duration, do func()) { w.At(w.Now+d, do) }

func (w *World) At(at time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{max(at, w.Now), w.order, do})
}

func (w *World) Logf(format string, args ...any) {
	if w.Trace != nil {
		w.Trace(fmt.Sprintf("%10v  ", w.Now.Round(time.Microsecond)) + fmt.Sprintf(format, args...))
	}
}

func (w *World) Failf(format string, args ...any) {
	if w.Err == nil {
		w.Err = fmt.Errorf("at %v: %s", w.Now, fmt.Sprintf(format, args...))
	}
}

// Next runs the next event. It returns false when none is left, or something is wrong.
func (w *World) Next() bool {
	if len(w.events) == 0 || w.Err != nil {
		return false
	}
	e := heap.Pop(&w.events).(event)
	w.Now = e.at
	e.do()
	return true
}

// MustEnd is called after each event. It fails a model that does not end.
func (w *World) MustEnd() {
	if w.steps++; w.steps > 100_000 || w.Now > End {
		w.Failf("the model does not end")
	}
}

// RunSeeds runs a model with many seeds, or only with the seed of the flag.
func RunSeeds(t *testing.T, run func(seed uint64, trace func(line string)) error) {
	if *oneSeed != 0 {
		if err := run(*oneSeed, func(line string) { t.Log(line) }); err != nil {
			t.Fatal(err)
		}
		return
	}
	count := *seeds
	if raceEnabled || testing.Short() {
		count /= 10
	}
	for seed := uint64(1); seed <= count; seed++ {
		if err := run(seed, nil); err != nil {
			t.Fatalf("%v\nsee more with: go test -run %s -seed %d", err, t.Name(), seed)
		}
	}
}
