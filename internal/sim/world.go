package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast"
)

// world is one run of a plan, in a bubble.
type world struct {
	plan      plan
	dice      dice
	mutant    Mutant
	wires     bool // the history includes messages
	server    *miniredis.Miniredis
	history   *history
	oracle    *oracle
	processes []*process
	places    []*place
	closings  sync.WaitGroup
	longest   time.Duration // the longest wait after all faults were healed
	counted   map[kind]int  // grants; guarded by the oracle's mutex

	disturbed map[string]int // faults; used by the nemesis alone

	mu      sync.Mutex
	offset  time.Duration // of the server's clock
	stepped bool
	refused time.Time // when the server last refused something
	text    string    // the error that the server replies
	textEnd time.Time
	taken   map[int64]struct{} // instants that are taken
	trouble []trouble
	silent  bool
	later   []string          // violations that were found while the server was executing commands
	kept    []*holdfast.Lease // includes leases of dead processes
	sources map[string]string // the SHA of each loaded script's mutant, by the SHA of the original
	frugal  map[string]bool   // whether a loaded script needs no memory, by the script's SHA
}

// Report is the result of a run.
type Report struct {
	Plan       string
	Hash       uint64 // of the history
	History    string
	Violations []string
	Grants     int
	Overlaps   int           // excused overlaps, after the server had lost data
	Longest    time.Duration // longest wait after all faults were healed
	Faults     int
	Instants   int            // instants at which something happened
	Counted    map[string]int // grants, by kind
	Disturbed  map[string]int // faults, by name
}

// Run runs the world of a seed. It must be called in a bubble of testing/synctest. With wires, the history includes every message.
func Run(seed uint64, mutant Mutant, wires bool) Report {
	w := newWorld(seed, mutant)
	w.wires = wires
	if on := breakRuntime(mutant.Name); mutant.InSource() && !on {
		w.oracle.wrong("no mutants are built in")
		return Report{Violations: w.oracle.violations}
	}
	w.run()
	report := Report{
		Plan: w.plan.String(), Hash: w.history.hash(w.sum()), History: w.history.String(), Violations: w.oracle.violations,
		Grants: w.oracle.grants, Overlaps: w.oracle.overlaps, Longest: w.longest, Faults: w.history.count("nemesis"),
		Counted: map[string]int{}, Disturbed: w.disturbed, Instants: len(w.taken),
	}
	for k, n := range w.counted {
		report.Counted[string(k)] = n
	}
	return report
}

func newWorld(seed uint64, mutant Mutant) *world {
	d := dice(mix(seed))
	w := &world{dice: d, plan: newPlan(seed, &mutant, d.of('p').stream()), mutant: mutant, server: miniredis.NewMiniRedis(),
		history: &history{start: time.Now()}, sources: map[string]string{}, frugal: map[string]bool{}, taken: map[int64]struct{}{}, counted: map[kind]int{}, disturbed: map[string]int{}}
	w.oracle = newOracle(w)
	w.plan.listening, w.plan.linger = newListening(d.of('l')), w.plan.newLinger(d.of('g'))
	w.server.ClockTTL(true)
	w.server.Seed(int(seed))
	for i, k := range w.plan.places {
		p := newPlace(w, fmt.Sprintf("%s%d", k, i), k)
		if k == multiLock {
			for _, letter := range "xy" {
				p.members = append(p.members, newPlace(w, fmt.Sprintf("%s%d%c", plainLock, i, letter), plainLock))
			}
			w.places = append(w.places, p.members...)
		}
		w.places = append(w.places, p)
	}
	return w
}

func (w *world) say(format string, args ...any) { w.history.add("nemesis", format, args...) }

func (w *world) run() {
	ctx := context.Background()
	if !w.begin(ctx) {
		return
	}
	leave := w.listen()
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { w.nemesis(w.dice.of('n').stream(), done) })
	all.Go(func() { w.observe(done) })
	w.use()
	close(done)
	all.Wait()
	w.pause(time.Millisecond) // so that the consequences of the users' last steps happen before the faults are healed
	w.heal()
	w.settle(ctx)
	w.pause(time.Second)
	leave()
	w.end(ctx)
}

// begin starts the processes one by one, each at an instant at which nothing else happens.
func (w *world) begin(ctx context.Context) bool {
	if pipe, err := w.server.Dial(); err == nil { // from now on w.server.Server() exists
		_ = pipe.Close()
	}
	w.server.Server().SetPreHook(w.hook)
	r := w.dice.of('b').stream()
	for i := range w.plan.processes {
		w.pause(between(r, time.Microsecond, 3*time.Millisecond))
		p, err := newProcess(w, fmt.Sprintf("p%d", i), uint64(i))
		if err != nil {
			w.oracle.wrong("no runtime: %v", err)
			return false
		}
		w.processes = append(w.processes, p)
	}
	for _, p := range w.places {
		if err := p.prepare(ctx, w.processes[0].rt); err != nil {
			w.oracle.wrong("preparing %s: %v", p.name, err)
			return false
		}
	}
	return true
}

// use runs all users until they are done.
func (w *world) use() {
	var users sync.WaitGroup
	for i, p := range w.processes {
		for n := range w.plan.users {
			u := &user{w: w, p: p, name: fmt.Sprintf("%s.%d", p.name, n), r: w.dice.of('u', uint64(i), uint64(n)).stream(), counted: map[*place]bool{}}
			users.Go(u.run)
		}
	}
	over := make(chan struct{})
	go w.sweep(over)
	users.Wait()
	w.closings.Wait()
	close(over)
}

// longest bounds how long the users may take.
const longest = 20 * time.Minute

// sweep ends a world in which somebody waits for ever (A6).
func (w *world) sweep(over chan struct{}) {
	select {
	case <-over:
		return
	case <-time.After(longest):
	}
	w.oracle.wrong("A6: a user waits for ever")
	for _, p := range w.processes {
		p.cancel()
		w.close(p)
	}
}

// keep keeps a lease reachable until the world ends, because the seed does not determine when the garbage collector finds a dropped one.
func (w *world) keep(lease *holdfast.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, lease)
}

// instantsMax bounds the instants of a world. The busiest worlds need some thousands; a world that needs more is in an endless loop.
const instantsMax = 1_000_000

// unique reserves and returns the first instant, from `at` on, at which nothing else happens. So no two
// goroutines wake at the same instant, and the scheduler never chooses which of them runs first.
func (w *world) unique(at time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.taken) == instantsMax {
		panic(fmt.Sprintf("%s: an endless loop, %v after the start", w.plan, time.Since(w.history.start)))
	}
	for ; ; at = at.Add(1) {
		if _, taken := w.taken[at.UnixNano()]; !taken {
			w.taken[at.UnixNano()] = struct{}{}
			return at
		}
	}
}

// pause sleeps until an instant at which nobody else wakes.
func (w *world) pause(d time.Duration) { time.Sleep(time.Until(w.unique(time.Now().Add(d)))) }

// sum returns a checksum of all messages on all wires, with their times.
func (w *world) sum() (sum uint64) {
	for _, p := range w.processes {
		p.mu.Lock()
		for _, wire := range p.wires {
			sum += uint64(wire.dice.of(uint64(wire.in.sum), uint64(wire.out.sum)))
		}
		p.mu.Unlock()
	}
	return sum
}

// patience bounds every wait of a process at the end of a world: for a free place, for a place that another process soon frees, and for Close.
const patience = time.Minute

// served bounds every wait after all faults have ended. During such a wait, each of the other processes acquires the same thing once.
const served = 1500 * time.Millisecond

// settle waits until nothing is held, and lets every process acquire everything once: whatever happened, no process is locked out (A6).
func (w *world) settle(ctx context.Context) {
	for range 8 {
		time.Sleep(w.plan.lease / 2)
		w.remnants()
	}
	time.Sleep(40 * time.Second) // permits of the dead expire, and the runtimes finish their retries
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, p := range w.processes {
		if p.over() {
			continue
		}
		r := w.dice.of('s', uint64(i)).stream()
		all.Go(func() {
			p.freshen(ctx)
			for _, place := range w.places {
				w.pause(between(r, time.Microsecond, time.Millisecond))
				if place.leased() {
					waited := w.takeOnce(ctx, &user{w: w, p: p, name: p.name, r: r}, place)
					mu.Lock()
					w.longest = max(w.longest, waited)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	for _, p := range w.places {
		w.tally(ctx, p)
	}
}

func (w *world) takeOnce(ctx context.Context, u *user, at *place) time.Duration {
	p := u.p
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, userKey{}, u), patience)
	defer cancel()
	if err := at.prepare(ctx, p.rt); err != nil {
		w.oracle.wrong("preparing %s for %s: %v", at.name, p.name, err)
	}
	began := time.Now()
	lease, err := at.of(p.rt, false).Acquire(ctx)
	w.keep(lease)
	if err != nil {
		w.oracle.wrong("A6: %s does not get %s: %v", p.name, at.name, err)
		return time.Since(began)
	}
	waited := time.Since(began)
	bound := served
	if w.plan.listening == crowd { // the process may find the lock taken when it tries again, and wait once more
		bound = 2 * crowdMax * time.Duration(max(len(at.members), 1))
	}
	if waited > bound {
		w.oracle.wrong("A6: %s has waited %v for %s, although all faults are over", p.name, waited, at.name)
	}
	h := &hold{p: p, who: p.name, place: at, lease: lease, called: began, first: began}
	w.oracle.granted(h)
	w.pause(between(u.r, time.Microsecond, time.Millisecond))
	w.oracle.look(h)
	w.oracle.leaves(h)
	err = lease.Release(ctx)
	w.oracle.gaveBack(h, err)
	w.history.add(p.name, "once more %s: %s", at.name, class(err))
	if err != nil {
		w.oracle.wrong("%s cannot give %s back: %v", p.name, at.name, err)
	}
	return waited
}

// tally checks what is left of a semaphore or a latch: every operation has counted exactly once.
func (w *world) tally(ctx context.Context, at *place) {
	i := slices.IndexFunc(w.processes, func(p *process) bool { return !p.over() })
	if i < 0 || w.oracle.forgot(at) {
		return
	}
	rt, all := w.processes[i].rt, w.plan.processes*w.plan.users
	var left, least, most int
	var err error
	switch at.kind {
	case semaphore:
		left, err = rt.Semaphore(at.name).Available(ctx)
		least, most = permitCount-at.vague, permitCount
		if w.isStepped() { // the server's clock was set back, so a late copy of an acquire may have taken permits that nobody has
			least = 0
		}
	case permits:
		left, err = rt.PermitSemaphore(at.name).Available(ctx)
		least, most = permitCount, permitCount
	case latch:
		left, err = rt.CountDownLatch(at.name).Count(ctx)
		least, most = all-at.counted, all-at.counted+at.vague
	default:
		return
	}
	if err != nil || left < least || left > most {
		w.oracle.wrong("A5: %d are left of %s, not %d to %d: %v", left, at.name, least, most, err)
	}
}

// end closes everything and checks that only permanent keys are left (A5). The bubble itself checks for goroutines.
func (w *world) end(ctx context.Context) {
	for _, p := range w.processes {
		ctx, cancel := context.WithTimeout(ctx, patience)
		if err := p.end(ctx); err != nil && !p.isDead() && p.left == nil { // an earlier Close that gave up makes this one fail, too
			w.oracle.wrong("A5: closing %s: %v", p.name, err)
		}
		cancel()
		w.pause(time.Millisecond)
	}
	w.silence()
	time.Sleep(time.Minute) // the results that Redis keeps for repeated requests expire as well
	w.setServerClock()
	for _, key := range w.server.Keys() {
		if !w.stays(key) {
			w.oracle.wrong("A5: %q is left, for %v", key, w.server.TTL(key))
		}
	}
	if channels := w.server.PubSubChannels("*"); len(channels) > 0 {
		w.oracle.wrong("A5: there are still subscribers of %q", channels)
	}
	w.tellLater()
	for _, p := range w.processes {
		p.system.Shutdown()
	}
	w.server.Close()
	time.Sleep(time.Minute) // for timers of go-redis and protoactor
}

// silence asserts that no runtime has anything left to ask the server (A5).
func (w *world) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

// stays reports whether a key is meant to stay.
func (w *world) stays(key string) bool {
	if ttl := w.server.TTL(key); strings.HasSuffix(key, ":crowd") {
		return w.plan.listening == crowd && ttl > 0 && ttl <= crowdKept
	}
	return strings.HasPrefix(key, "redisson_lock_token:") || slices.ContainsFunc(w.places, func(p *place) bool {
		return !p.leased() && key == p.name || p.kind == permits && (key == p.name || key == "{"+p.name+"}:timeout")
	})
}

// toldWithin returns the longest time in which a holder learns that the server has lost its grant. Usually the holder learns it from the next
// renewal. But if that renewal arrives too late, the server refuses to execute it, and the holder learns of the loss only when the renewal is
// repeated.
func (w *world) toldWithin() time.Duration {
	return w.plan.lease/3 + w.plan.lease/20 + 25*time.Millisecond
}

// processOf returns the process that a grant belongs to.
func (w *world) processOf(id string) *process {
	i := slices.IndexFunc(w.processes, func(p *process) bool { return strings.HasPrefix(id, p.rt.ID()+":") })
	if i < 0 {
		return nil
	}
	return w.processes[i]
}

// spare reports whether one more process may end: at least one must stay.
func (w *world) spare() bool {
	living := 0
	for _, p := range w.processes {
		if !p.ending() {
			living++
		}
	}
	return living > 1
}

// remnants looks for grants of closed processes on the server. The server may still have such a grant, or may have made it again by executing a call
// too late. Two cases are excused. If the server's clock was set back, a late call counts as in time. And a grant that the server refused to release
// stays until its lease ends.
func (w *world) remnants() {
	w.mu.Lock()
	excused := w.stepped || time.Since(w.refused) <= 2*w.plan.lease // the longest lease that users ask for
	w.mu.Unlock()
	if excused {
		return
	}
	for _, p := range w.processes {
		if !p.isGone() {
			continue
		}
		for _, at := range w.places {
			if at.kind == permits || at.kind == multiLock || !at.leased() {
				continue
			}
			if id := at.holderOf(p.rt.ID()); id != "" && !w.oracle.isKept(at, id) {
				w.oracle.wrong("A5: %s is closed, and %s is held by %s", p.name, at.name, id)
			}
		}
	}
}

func (w *world) isStepped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stepped
}

// serverNow returns the server's time.
func (w *world) serverNow() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.offset)
}

// setServerClock sets the server's clock if it was stepped. After a step, setServerClock must be called before every request to the server, because
// from then on miniredis's own clock stands still.
func (w *world) setServerClock() {
	w.mu.Lock()
	offset, stepped := w.offset, w.stepped
	w.mu.Unlock() // before SetTime, which takes the server's mutex: a script's hook takes w.mu while it holds the server's mutex
	if stepped {
		w.server.SetTime(time.Now().Add(offset).UTC())
	}
}

func (w *world) step(d time.Duration) {
	over := func(time.Duration) {}
	if d > 0 {
		over = w.oracle.loses("time", nil)
	}
	w.mu.Lock()
	w.offset += d
	w.stepped = true
	w.mu.Unlock()
	w.setServerClock()
	over(0)
}

func (w *world) refuse(text string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text, w.textEnd = text, time.Now().Add(d)
}
