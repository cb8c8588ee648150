package lock

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/scripts"
)

// TestStep_RandomModel lets a few processes contend for one lock: each a State, with a shell, a watchdog and users made up
// here, around a model of the one key in Redis. The network delays, loses and cuts; processes pause; users cancel, extend,
// re-enter, die and close. All of it follows from the seed. After every event:
//
//   - whoever may believe to hold the lock does so in Redis, so no two processes do;
//   - whatever has the lock in Redis is known to its process, so it will be released;
//   - whoever released in Redis what it held is not told that it was lost;
//   - whatever ends a grant keeps the lock taken until the at-least of its holders is over;
//   - the stepChecker is content.
//
// And when the users have gone and the network is well: every request was answered, the key is free, and all actors retire or have
// closed.
func TestStep_RandomModel(t *testing.T) {
	playSeeds(t, func(seed uint64) *world {
		return newWorld(seed, &plainKey{}, scripts.Lock)
	})
}

func playSeeds(t *testing.T, newWorld func(seed uint64) *world) {
	machinetest.RunSeeds(t, func(seed uint64, trace func(line string)) error {
		w := newWorld(seed)
		w.Trace = trace
		return w.run()
	})
}

// world is everything around the lock states.
type world struct {
	machinetest.World
	lossless bool          // no message of a release is lost, but those of a broken connection
	hasty    bool          // waiters lose patience with Redis soon
	forced   int           // percent of the users' operations that are force-releases
	way      time.Duration // how long a message takes to Redis or back at most, when nothing happens to it
	watch    func()        // called after every event; nil: nobody looks

	kinds     []*scripts.Kind // that users ask for
	key       key
	listeners int                      // that are told of releases, and want nothing
	told      []func()                 // those of them that want something nevertheless
	removed   map[string]bool          // grants whose key somebody deleted: nobody can know
	leasts    map[string]time.Duration // by grant: until when its holders have asked to keep others out
	released  map[string]string        // grants whose holder's release was executed; with the heir of a pass
	procs     []*proc
	owners    uint64
}

func newWorld(seed uint64, key key, kinds ...*scripts.Kind) *world {
	w := &world{
		World: machinetest.NewWorld(seed, seed), removed: map[string]bool{}, released: map[string]string{}, leasts: map[string]time.Duration{}, way: time.Millisecond, key: key, kinds: kinds,
	}
	w.Faults = []int{0, 5, 20, 50}[w.Random.IntN(4)]
	w.Panics = []int{0, 0, 0, 0, 5}[w.Random.IntN(5)]
	w.hasty = w.Chance(50)
	w.forced = []int{1, 1, 1, 10}[w.Random.IntN(4)]
	count := 2 + w.Random.IntN(3)
	policy := wait.Policy{Lease: machinetest.Lease, HandoffMax: 1 + w.Random.IntN(5), HandoffFor: 10 * time.Millisecond, MaxWaiters: 4, Counts: w.Chance(70)}
	if w.Chance(40) {
		policy.Linger = machinetest.Lease / 4
	}
	for i := range count {
		w.procs = append(w.procs, newProc(w, string(rune('A'+i)), policy))
	}
	for _, p := range w.procs {
		for range 1 + w.Random.IntN(4) {
			w.After(w.UpTo(20*time.Millisecond), newUser(p).next)
		}
		p.Suffer()
	}
	if w.Chance(30) {
		w.After(w.UpTo(20*time.Millisecond), w.peer)
	}
	if w.Chance(10) {
		w.After(w.UpTo(machinetest.Use), w.remove)
	}
	w.After(machinetest.Use, func() { w.Calm = true })
	return w
}

// run plays until nothing is left to happen.
func (w *world) run() error {
	for w.Next() {
		w.MustEnd()
		w.checkHolders()
		w.checkOrphan()
		if w.watch != nil {
			w.watch()
		}
	}
	if w.Err == nil {
		w.checkEnd()
	}
	return w.Err
}

// checkHolders: a lease that is valid here is valid in Redis.
func (w *world) checkHolders() {
	for _, p := range w.procs {
		p.holds = slices.DeleteFunc(p.holds, func(h *lease.Hold) bool { return h.Err() != nil })
		for _, h := range p.holds {
			if h.Valid(w.Now) && !w.key.has(w, h.Grant.ID) && !w.removed[h.Grant.ID] {
				w.Failf("%s believes to hold %s until %v, but Redis has %v", p.Name, h.Grant.ID, h.Until(), w.key)
			}
		}
	}
}

// checkOrphan: what has the lock in Redis is wanted, asked for, or being released.
func (w *world) checkOrphan() {
	if w.Excused {
		return
	}
	for _, id := range w.key.fields(w) {
		p := w.procs[id[0]-'A']
		if !p.knows(id) {
			w.Failf("%s has forgotten %s: %v", p.Name, id, w.key)
		}
	}
}

// knows tells whether a process will release this grant.
func (p *proc) knows(id string) (known bool) {
	look := func(s *State) {
		known = known || s.grant != nil && s.grant.ID == id || s.pending.id == id ||
			slices.ContainsFunc(s.orphans, func(g orphan) bool { return g.id == id })
	}
	p.checker.eachMember(look)
	return known
}

func (w *world) checkEnd() {
	w.Now += 2 * machinetest.Lease
	if left := w.key.fields(w); len(left) > 0 {
		w.Failf("%v is left: %v", left, w.key)
	}
	for _, p := range w.procs {
		if len(p.checker.open) > 0 || len(p.waiting) > 0 {
			w.Failf("%s: %d requests are not answered", p.Name, len(p.checker.open))
		}
		if !p.stopped {
			p.step(wait.TryRetire{})
		}
		if !p.stopped {
			w.Failf("%s is not idle: %+v", p.Name, p.state)
		}
	}
}
