package actors

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

var (
	oneSeed = flag.Uint64("seed", 0, "run the random model test with this seed alone, and print what happens")
	seeds   = flag.Uint64("seeds", 3000, "how many seeds the random model test runs")
)

// TestStep_RandomModel lets a few processes contend for one lock: each a lockState, with a shell, a watchdog and users made up
// here, around a model of the one key in Redis. The network delays, loses and cuts; processes pause; users cancel, extend,
// re-enter, die and close. All of it follows from the seed. After every event:
//
//   - whoever may believe to hold the lock does so in Redis, so no two processes do;
//   - whatever has the lock in Redis is known to its process, so it will be released;
//   - whoever released in Redis what it held is not told that it was lost;
//   - the stepChecker is content.
//
// And when the users have gone and the network is well: every request was answered, the key is free, and all actors retire or have
// closed.
func TestStep_RandomModel(t *testing.T) {
	runSeeds(t, func(seed uint64) *world {
		return newWorld(seed, &plainKey{}, scripts.Lock)
	})
}

func runSeeds(t *testing.T, newWorld func(seed uint64) *world) {
	if *oneSeed != 0 {
		w := newWorld(*oneSeed)
		w.trace = func(line string) { t.Log(line) }
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
		return
	}
	count := *seeds
	if raceEnabled || testing.Short() {
		count /= 10
	}
	for seed := uint64(1); seed <= count; seed++ {
		if err := newWorld(seed).run(); err != nil {
			t.Fatalf("%v\nsee more with: go test ./actors -run %s -seed %d", err, t.Name(), seed)
		}
	}
}

// The times of the model. The lease is short, so that a second is long.
const (
	modelLease = 300 * time.Millisecond
	modelUse   = time.Second      // users come for so long, and the network misbehaves
	modelEnd   = 60 * time.Second // nothing may be going on any more
)

// world is everything around the lock states.
type world struct {
	random *rand.Rand
	now    time.Duration
	events eventHeap
	order  int
	steps  int
	calm   bool          // the users have gone, and the network is well
	faults int           // percent of calls that something happens to
	panics int           // percent of leases whose giving panics
	hasty  bool          // waiters lose patience with Redis soon
	forced int           // percent of what users do that is a force-release
	way    time.Duration // how long a message takes to Redis or back at most, when nothing happens to it
	trace  func(string)
	watch  func() // called after every event; nil: nobody looks
	err    error

	kinds     []*scripts.Kind // that users ask for
	key       key
	listeners int               // that are told of releases, and want nothing
	excused   bool              // Redis rejected a release, or an actor was told to give up: keys may stay until they expire
	removed   map[string]bool   // grants whose key somebody deleted: nobody can know
	released  map[string]string // grants whose holder's release was executed; with the heir of a pass
	procs     []*proc
	owners    uint64
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

func newWorld(seed uint64, key key, kinds ...*scripts.Kind) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, seed)), removed: map[string]bool{}, released: map[string]string{}, way: time.Millisecond, key: key, kinds: kinds,
	}
	w.faults = []int{0, 5, 20, 50}[w.random.IntN(4)]
	w.panics = []int{0, 0, 0, 0, 5}[w.random.IntN(5)]
	w.hasty = w.chance(50)
	w.forced = []int{1, 1, 1, 10}[w.random.IntN(4)]
	count := 2 + w.random.IntN(3)
	policy := wait.Policy{Lease: modelLease, HandoffMax: 1 + w.random.IntN(5), HandoffFor: 10 * time.Millisecond, MaxWaiters: 4, Counts: w.chance(70)}
	for i := range count {
		w.procs = append(w.procs, newProc(w, string(rune('A'+i)), policy))
	}
	for _, p := range w.procs {
		for range 1 + w.random.IntN(4) {
			w.after(w.upTo(20*time.Millisecond), newUser(p).next)
		}
		w.after(w.upTo(modelUse), p.reconnect)
		if w.chance(30) {
			w.after(w.upTo(modelUse), p.pause)
		}
		if w.chance(20) {
			w.after(w.upTo(modelUse), func() { p.post(0, wait.Close{Stage: wait.Closing}) })
		}
		if w.chance(20) { // sometimes a Close comes later
			w.after(w.upTo(modelUse), func() { p.post(0, wait.Close{Stage: wait.Draining}) })
		}
		if w.chance(2) {
			w.after(w.upTo(modelUse), func() {
				w.excused = true
				p.post(0, wait.Close{Stage: wait.Closing})
				p.post(0, wait.Close{Stage: wait.Aborting})
			})
		}
	}
	if w.chance(30) {
		w.after(w.upTo(20*time.Millisecond), w.peer)
	}
	if w.chance(10) {
		w.after(w.upTo(modelUse), w.remove)
	}
	w.after(modelUse, func() { w.calm = true })
	return w
}

func (w *world) chance(percent int) bool { return w.random.IntN(100) < percent }

// upTo is a random time below its argument.
func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(max(int64(d), 1)))
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now+d, do) }

func (w *world) at(at time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{max(at, w.now), w.order, do})
}

func (w *world) logf(format string, args ...any) {
	if w.trace != nil {
		w.trace(fmt.Sprintf("%10v  ", w.now.Round(time.Microsecond)) + fmt.Sprintf(format, args...))
	}
}

func (w *world) failf(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %v: %s", w.now, fmt.Sprintf(format, args...))
	}
}

// run plays until nothing is left to happen.
func (w *world) run() error {
	for len(w.events) > 0 && w.err == nil {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
		w.checkHolders()
		w.checkOrphan()
		if w.watch != nil {
			w.watch()
		}
		if w.steps++; w.steps > 100_000 || w.now > modelEnd {
			w.failf("it does not come to an end")
		}
	}
	if w.err == nil {
		w.checkEnd()
	}
	return w.err
}

// checkHolders: a lease that is valid here is valid in Redis.
func (w *world) checkHolders() {
	for _, p := range w.procs {
		p.holds = slices.DeleteFunc(p.holds, func(h *lease.Hold) bool { return h.Err() != nil })
		for _, h := range p.holds {
			if h.Valid(w.now) && !w.key.has(w, h.Grant.ID) && !w.removed[h.Grant.ID] {
				w.failf("%s believes to hold %s until %v, but Redis has %v", p.name, h.Grant.ID, h.Until(), w.key)
			}
		}
	}
}

// checkOrphan: what has the lock in Redis is wanted, asked for, or being released.
func (w *world) checkOrphan() {
	if w.excused {
		return
	}
	for _, id := range w.key.fields(w) {
		p := w.procs[id[0]-'A']
		if !p.knows(id) {
			w.failf("%s has forgotten %s: %v", p.name, id, w.key)
		}
	}
}

// knows tells whether a process will release this grant.
func (p *proc) knows(id string) (known bool) {
	look := func(s *lockState) {
		known = known || s.grant != nil && s.grant.ID == id || s.trial.id == id ||
			slices.ContainsFunc(s.ghosts, func(g ghost) bool { return g.id == id })
	}
	p.checker.eachSeat(look)
	return known
}

func (w *world) checkEnd() {
	w.now += 2 * modelLease
	if left := w.key.fields(w); len(left) > 0 {
		w.failf("%v is left: %v", left, w.key)
	}
	for _, p := range w.procs {
		if len(p.checker.open) > 0 || len(p.waiting) > 0 {
			w.failf("%s: %d requests are not answered", p.name, len(p.checker.open))
		}
		if !p.stopped {
			p.step(wait.TryRetire{})
		}
		if !p.stopped {
			w.failf("%s is not idle: %+v", p.name, p.state)
		}
	}
}
