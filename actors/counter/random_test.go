package counter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// TestCountStep_RandomModel lets a few processes share a semaphore. Each process is a State with a simulated shell and simulated users; Redis
// is a model that does what the scripts do. The network delays and loses messages, connections break; processes pause and close; steps panic;
// users wait for several permits, try, cancel, read the number of permits and drain them. The seed determines all of it. After every event:
//
//   - Redis and the users together have no more permits than the semaphore was given, so nothing counts twice;
//   - within a process no waiter is overtaken;
//   - the countChecker finds no violation.
//
// At the end, when the users have stopped and the network works, every request has been answered, all actors are idle or have closed, and every
// permit is back. If there were no faults, Redis keeps no results of requests.
func TestCountStep_RandomModel(t *testing.T) {
	machinetest.RunSeeds(t, func(seed uint64, trace func(line string)) error {
		w := newCountWorld(seed)
		w.Trace = trace
		return w.run()
	})
}

// countWorld is the simulation. It has the processes, a model of Redis, and the numbers of permits that the checks compare.
type countWorld struct {
	machinetest.World

	permits int64 // in Redis
	total   int64 // permits that should exist, including held ones
	held    int64 // held by users, as far as they know
	lost    int64 // permits that a user could not return, because the process had closed
	results map[string]countResult
	want    string // value of the key of reservations: "" without a key, "a" while runtime a has a reservation, "rest a" in the rest after it
	wantEnd time.Duration

	countProcs  []*countProc
	unconfirmed int
}

// countResult is the result of a request that Redis keeps.
type countResult struct {
	served []bool // of an acquire
	number int64
	taken  int64
	undone bool
	until  time.Duration
}

func newCountWorld(seed uint64) *countWorld {
	w := &countWorld{World: machinetest.NewWorld(seed, seed), results: map[string]countResult{}}
	w.Faults = []int{0, 5, 20, 50}[w.Random.IntN(4)]
	w.Panics = []int{0, 0, 0, 0, 3}[w.Random.IntN(5)]
	w.total = 1 + w.Random.Int64N(5)
	w.permits = w.total
	policy := wait.Policy{Lease: machinetest.Lease, MaxWaiters: 6}
	for i := range 1 + w.Random.IntN(3) {
		w.countProcs = append(w.countProcs, newCountProc(w, string(rune('A'+i)), policy))
	}
	for _, p := range w.countProcs {
		for range 1 + w.Random.IntN(6) {
			w.After(w.UpTo(20*time.Millisecond), (&countUser{p}).next)
		}
		p.Suffer()
	}
	w.After(machinetest.Use, func() { w.Calm = true })
	w.After(10*machinetest.Use, w.goHome)
	return w
}

func (w *countWorld) run() error {
	for w.Next() {
		w.MustEnd()
		if w.permits < 0 || w.permits+w.held > w.total {
			w.Failf("%d permits in Redis and %d held, of %d in total", w.permits, w.held, w.total)
		}
	}
	if w.Err == nil {
		w.checkEnd()
	}
	return w.Err
}

func (w *countWorld) checkEnd() {
	if left := w.total - w.lost - w.permits - w.held; left < 0 && !w.Excused || left > 0 && w.unconfirmed == 0 {
		w.Failf("%d permits of %d, %d held, %d lost, after %d events", w.permits, w.total, w.held, w.lost, w.unconfirmed)
	}
	for _, p := range w.countProcs {
		if len(p.checker.open) > 0 || len(p.waiting) > 0 {
			w.Failf("%s: %d requests have no answer", p.Name, len(p.checker.open))
		}
		if !p.state.Idle() {
			w.Failf("%s is not idle: %+v", p.Name, p.state)
		}
	}
	for id, result := range w.results {
		if !w.Excused && w.Faults == 0 && w.Panics == 0 && result.until > w.Now && !result.undone {
			w.Failf("the result of %s is left although no answer was lost", id)
		}
	}
}

// goHome cancels all waiting acquires: processes that were killed or closed have kept permits, so there may be too few for the waiters.
func (w *countWorld) goHome() {
	for _, p := range w.countProcs {
		for _, r := range p.arrived {
			p.Post(0, wait.CancelRequest{Request: r, Cause: errors.New("context canceled")})
		}
	}
}

// countProc is one process: a count state and its shell.
type countProc struct {
	machinetest.Process
	w       *countWorld
	state   *State
	checker *countChecker
	policy  wait.Policy

	waiting map[*wait.Request]func(error)
	arrived []*wait.Request // acquires that wait, in order
	stopped bool
}

func newCountProc(w *countWorld, name string, policy wait.Policy) *countProc {
	p := &countProc{w: w, waiting: map[*wait.Request]func(error){}}
	p.Process = machinetest.Process{
		World: &w.World, Name: name, Step: p.step,
		Among: func() int { return w.Random.IntN(3) * 1000 },
	}
	ids := 0
	policy.NewID = func() string {
		if w.Chance(w.Panics) {
			panic("no id")
		}
		ids++
		return fmt.Sprintf("%s:%d", name, ids)
	}
	policy.Jitter = w.UpTo
	p.policy = policy.WithTimes()
	p.state = New(&p.policy, &lease.Address{Kind: scripts.Semaphore, Name: "orders", Raw: "orders"})
	p.checker = newCountChecker(p.state)
	return p
}

func (p *countProc) step(message any) {
	w := p.w
	if w.Trace != nil {
		w.Logf("%s <- %s", p.Name, describeCount(message))
	}
	r, _ := message.(*wait.Request)
	if p.stopped {
		if r != nil {
			p.answer(r, protocol.ErrClosed)
		}
		return
	}
	if r != nil && r.Count.Way == scripts.Take && !r.Try {
		p.arrived = append(p.arrived, r)
	}
	effects, panicked, err := p.checker.step(w.Now, message)
	if panicked != nil {
		w.Logf("%s  panic", p.Name)
		if r != nil {
			p.answer(r, r.Err)
		}
	}
	for i := range effects {
		p.carryOut(&effects[i])
	}
	if p.state.Stage != wait.Running {
		p.sweep()
	}
	if err != nil {
		w.Failf("%s: %T: %v", p.Name, message, err)
	}
}

// sweep stops the actor if it is idle, as the registry does.
func (p *countProc) sweep() { p.stopped = p.stopped || p.state.Idle() }

func describeCount(message any) string {
	switch m := message.(type) {
	case *wait.Request:
		return fmt.Sprintf("%s %p %d try=%v", m.Count.Word, m, m.Number, m.Try)
	case wait.CancelRequest:
		return fmt.Sprintf("cancel %s %p", m.Request.Count.Word, m.Request)
	case *countDone:
		return fmt.Sprintf("%v %s %s %+v %v", m.class, m.call.op.Word, m.call.terms.Request, m.counted, m.err)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", message), "actors.")
}

func (p *countProc) carryOut(e *wait.Effect) {
	w := p.w
	switch e.Do {
	case wait.DoCall:
		w.Logf("%s  call %s %+v %+v", p.Name, e.Call.(*countCall).op.Word, e.Call.(*countCall).terms, e.Call.(*countCall).Timing)
		w.call(e.Call.(*countCall), func(done countDone) { p.Post(w.UpTo(100*time.Microsecond), &done) })
	case wait.DoAnswer:
		w.Logf("%s  answer %s %p: %v", p.Name, e.Request.Count.Word, e.Request, e.Request.Err)
		p.answer(e.Request, e.Request.Err)
	case wait.DoWatch, wait.DoUnwatch:
		p.Watch(e.Channel, e.Do == wait.DoWatch)
	case wait.DoAlarm:
		p.SetAlarm(e.At)
	case wait.DoEmit:
		w.Logf("%s  event %v", p.Name, e.Event)
		w.unconfirmed++
	}
}

// answer gives the answer to its user, and checks that no waiter was overtaken.
func (p *countProc) answer(r *wait.Request, err error) {
	if i := slices.Index(p.arrived, r); i >= 0 {
		if i > 0 && err == nil {
			p.w.Failf("%s: %p is served before %p", p.Name, r, p.arrived[0])
		}
		p.arrived = slices.Delete(p.arrived, i, i+1)
	}
	then := p.waiting[r]
	delete(p.waiting, r)
	if then != nil {
		then(err)
	}
}

// countUser acquires and releases.
type countUser struct{ p *countProc }

func (u *countUser) think() { u.p.w.After(u.p.w.UpTo(10*time.Millisecond), u.next) }

// send sends a request, and sometimes cancels it.
func (u *countUser) send(op *scripts.CountOp, number int64, try bool, then func(*wait.Request, error)) {
	w := u.p.w
	r := &wait.Request{Do: wait.Count, Address: u.p.state.Address, Count: op, Number: number, Try: try}
	u.p.waiting[r] = func(err error) { then(r, err) }
	u.p.Post(w.UpTo(100*time.Microsecond), r)
	if w.Chance(30) {
		u.p.Post(w.UpTo(50*time.Millisecond), wait.CancelRequest{Request: r, Cause: errors.New("context canceled")})
	}
}

func (u *countUser) next() {
	w := u.p.w
	switch {
	case w.Calm || u.p.stopped:
	case w.Chance(3):
		u.send(scripts.SemaphoreRead, 0, false, func(*wait.Request, error) { u.think() })
	case w.Chance(3):
		u.drain()
	case w.Chance(1):
		u.p.sweep()
		u.think()
	default:
		u.acquire()
	}
}

func (u *countUser) acquire() {
	w := u.p.w
	number := 1 + w.Random.Int64N(w.total)
	if w.Chance(60) {
		number = 1
	}
	u.send(scripts.SemaphoreAcquire, number, w.Chance(20), func(_ *wait.Request, err error) {
		if err != nil {
			u.think()
			return
		}
		u.hold(number)
	})
}

// drain takes all permits that are free.
func (u *countUser) drain() {
	u.send(scripts.SemaphoreDrain, 0, false, func(r *wait.Request, err error) {
		if err != nil || r.Number == 0 {
			u.think()
			return
		}
		u.hold(r.Number)
	})
}

// hold keeps permits for a moment and then releases them.
func (u *countUser) hold(number int64) {
	w := u.p.w
	w.held += number
	w.After(w.UpTo(5*time.Millisecond), func() {
		w.held -= number
		u.send(scripts.SemaphoreRelease, number, false, func(_ *wait.Request, err error) {
			if errors.Is(err, protocol.ErrClosed) {
				w.lost += number
			}
			u.think()
		})
	})
}
