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

// TestStep_RandomModel lets a few processes contend for one lock. Each is a State with a simulated shell, watchdog and users; Redis is a
// model of the one key. The network delays and loses messages and breaks connections; processes pause and close; users cancel, extend,
// re-enter and die. All of it follows from the seed. After every event:
//
//   - a lease that is valid in its process is valid in Redis, so no two processes hold the lock;
//   - a grant that has the lock in Redis is known to its process, so it will be released;
//   - a holder whose release was executed does not get the answer that its lease was lost;
//   - a grant does not linger if another process was refused because of it, or because of an earlier grant of the same turn (plain locks);
//   - a release keeps the lock taken until the WithAtLeast time of its holders is over;
//   - the stepChecker finds no error.
//
// When the users have left and the network works again, every request has been answered, the key is free, and all actors are idle or have closed.
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

// world is everything around the machines.
type world struct {
	machinetest.World
	lossless bool          // no release message is lost, except by a broken connection
	hasty    bool          // waiters have little patience with a silent Redis
	forced   int           // percent of the users' operations that are force-releases
	way      time.Duration // maximum time of a message to Redis or back, unless it is delayed or lost
	watch    func()        // called after every event, unless it is nil
	since    time.Duration // the instant from which the lock has been free although requests wait (checkIdle), or 0

	kinds     []*scripts.Kind // kinds of lock that users ask for
	key       key
	listeners int                      // number of subscribers to releases other than the model's processes
	told      []func()                 // functions called for each release, one for each listener that wants the lock
	tenure    int                      // a number that grows with each release and each acquire of a free lock; the first is 1
	demands   map[string]int           // by grant: the tenure in which another process was refused because of it
	removed   map[string]bool          // grants whose key was deleted: their processes cannot know that at once
	leasts    map[string]time.Duration // by grant: the end of the at-least time of its holders
	released  map[string]string        // by grant that was released: the new grant if a pass has replaced it, or "" if a release has ended it
	crowded   bool                     // Redis gives out places, as if very many processes waited
	crowd     []string                 // names of the processes that have a place; a dead process has the name "dead"
	procs     []*proc
}

func newWorld(seed uint64, key key, kinds ...*scripts.Kind) *world {
	w := &world{
		World: machinetest.NewWorld(seed, seed), tenure: 1, demands: map[string]int{}, removed: map[string]bool{}, released: map[string]string{}, leasts: map[string]time.Duration{}, way: time.Millisecond, key: key, kinds: kinds,
	}
	w.Faults = []int{0, 5, 20, 50}[w.Random.IntN(4)]
	w.Panics = []int{0, 0, 0, 0, 5}[w.Random.IntN(5)]
	w.hasty = w.Chance(50)
	if w.crowded = w.Chance(25); w.crowded {
		w.crowd = slices.Repeat([]string{"dead"}, w.Random.IntN(40))
	}
	w.forced = []int{1, 1, 1, 10}[w.Random.IntN(4)]
	count := 2 + w.Random.IntN(3)
	policy := wait.Policy{Lease: machinetest.Lease, HandoffMax: 1 + w.Random.IntN(5), HandoffFor: 10 * time.Millisecond, MaxWaiters: 4, Standalone: w.Chance(70)}
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

// run plays the events until none is left.
func (w *world) run() error {
	for w.Next() {
		w.MustEnd()
		w.checkHolders()
		w.checkOrphan()
		w.checkLinger()
		if w.watch != nil {
			w.watch()
		}
	}
	if w.Err == nil {
		w.checkEnd()
	}
	return w.Err
}

// checkHolders checks that a lease that is valid in its process is valid in Redis.
func (w *world) checkHolders() {
	for _, p := range w.procs {
		p.holds = slices.DeleteFunc(p.holds, func(h *lease.Hold) bool { return h.Err() != nil })
		for _, h := range p.holds {
			if h.Valid(w.Now) && !w.key.has(w, h.Grant.ID) && !w.removed[h.Grant.ID] {
				w.Failf("%s has the lease %s until %v, but Redis has %v", p.Name, h.Grant.ID, h.Until(), w.key)
			}
		}
	}
}

// checkOrphan checks that a grant that has the lock in Redis is known to its process: held, asked for, or being released.
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

// checkLinger checks that a grant does not linger after its process has received a demand. A demand counts only until the lock is released, because
// the release notifies the process that wants the lock.
func (w *world) checkLinger() {
	for _, p := range w.procs {
		p.checker.eachMember(func(s *State) {
			if s.lingering && p.demanded == w.tenure && w.key.has(w, s.grant.ID) {
				w.Failf("%s lingers with %s, which another process wants", p.Name, s.grant.ID)
			}
		})
	}
}

// knows reports whether a process knows a grant, and so will release it.
func (p *proc) knows(id string) (known bool) {
	look := func(s *State) {
		known = known || s.grant != nil && s.grant.ID == id || s.pending.id == id || s.orphans.has(id)
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
			w.Failf("%s: %d requests have no answer", p.Name, len(p.checker.open))
		}
		if !p.state.Idle() {
			w.Failf("%s is not idle: %+v", p.Name, p.state)
		}
	}
}
