package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// proc is one process of the model: the machine of a lock, with its shell and watchdog.
type proc struct {
	machinetest.Process
	w       *world
	state   wait.Machine
	checker *stepChecker
	policy  wait.Policy

	lag      time.Duration        // additional delay of messages to this process
	clock    time.Duration        // how far its estimate of the server's clock is off
	timers   map[*lease.Grant]int // by grant: the number of the watchdog's latest timer; timers with an earlier number have no effect
	holds    []*lease.Hold        // leases that were granted and not released
	waiting  map[*wait.Request]func(error)
	demanded int           // the tenure (world.tenure) in which the latest demand was sent, or 0
	panicked time.Duration // when a step panicked last
	stopped  bool
}

func newProc(w *world, name string, policy wait.Policy) *proc {
	p := &proc{w: w, timers: map[*lease.Grant]int{}, waiting: map[*wait.Request]func(error){}}
	p.Process = machinetest.Process{
		World: &w.World, Name: name, Step: p.step,
	}
	grants, serials := 0, uint64(0)
	policy.NewID = func() string { grants++; return fmt.Sprintf("%s:%d", name, grants) }
	policy.Serial = func() uint64 {
		if w.Chance(w.Panics) {
			panic("no serial")
		}
		serials++
		return serials
	}
	policy.Jitter = w.UpTo
	policy.ServerTime = func(now time.Duration) time.Duration { return time.Hour + p.clock + now }
	p.policy = policy.WithTimes()
	if w.hasty {
		p.policy.Patience = machinetest.Lease
	}
	p.state = New(&p.policy, &lease.Address{Kind: w.kinds[0], Name: "orders", Raw: "orders"}, nil, nil)
	p.checker = newStepChecker(p.state)
	return p
}

// The methods that follow do what the shell does.

func (p *proc) step(message any) {
	w := p.w
	if w.Trace != nil {
		w.Logf("%s <- %s", p.Name, describe(message))
	}
	if p.stopped {
		p.refuse(message)
		return
	}
	if freed, ok := message.(wait.Freed); ok {
		for _, id := range freed.Grants {
			if strings.HasPrefix(id, p.Name+":") { // the process that asked for the force-release learns that its own grants have ended
				delete(w.removed, id)
			}
		}
	}
	if demand, ok := message.(wait.Demanded); ok {
		p.demanded = w.demands[demand.Grant]
	}
	effects, panicked, err := p.checker.step(p.w.Now, message)
	if panicked != nil {
		w.Logf("%s  panic", p.Name)
		p.panicked = w.Now
		p.demanded = 0
		if r, ok := message.(*wait.Request); ok {
			p.answer(r, r.Err)
		}
	}
	for i := range effects {
		p.carryOut(&effects[i])
	}
	if p.checker.ends {
		p.sweep()
	}
	if err != nil {
		w.Failf("%s: %T: %v", p.Name, message, err)
	}
}

// sweep stops the actor if it is idle, as the registry does.
func (p *proc) sweep() { p.stopped = p.stopped || p.state.Idle() }

// refuse answers a request that arrives after the actor has stopped, as the registry does.
func (p *proc) refuse(message any) {
	if r, ok := message.(*wait.Request); ok {
		p.answer(r, protocol.ErrClosed)
	}
}

func (p *proc) carryOut(e *wait.Effect) {
	w := p.w
	switch e.Do {
	case wait.DoCall:
		w.Logf("%s  call %s %s lease=%v %+v", p.Name, e.Call.(*lockCall).do.word(), e.Call.(*lockCall).terms.Grant, e.Call.(*lockCall).terms.Lease, e.Call.(*lockCall).Timing)
		p.call(e.Call.(*lockCall), func(done callDone) { p.Post(w.UpTo(100*time.Microsecond), &done) })
	case wait.DoAnswer:
		w.Logf("%s  answer %v %p: %v", p.Name, e.Request.Do, e.Request, e.Request.Err)
		p.answer(e.Request, e.Request.Err)
	case wait.DoKeep:
		p.keep(e.Grant)
	case wait.DoDrop:
		p.timers[e.Grant]++
		e.Grant.Kept.Store(false)
	case wait.DoWatch, wait.DoUnwatch:
		w.Logf("%s  watch %s: %v", p.Name, e.Channel, e.Do == wait.DoWatch)
		p.Watch(e.Channel, e.Do == wait.DoWatch)
	case wait.DoAlarm:
		p.SetAlarm(e.At)
	case wait.DoEmit:
		w.Logf("%s  event %v", p.Name, e.Event)
	}
}

func (p *proc) answer(r *wait.Request, err error) {
	then := p.waiting[r]
	delete(p.waiting, r)
	p.checkRefusal(r, err)
	if r.Do == wait.Acquire && err == nil {
		p.holds = append(p.holds, r.Hold)
		if r.AtLeast > 0 {
			p.w.leasts[r.Hold.Grant.ID] = max(p.w.leasts[r.Hold.Grant.ID], p.w.Now+r.AtLeast)
		}
	}
	if then != nil {
		p.w.After(p.w.UpTo(50*time.Microsecond), func() { then(err) })
	}
}

// checkRefusal checks that no try is refused because of a grant that its own process is releasing, unless the release takes long. A try may be
// refused all the same if its caller gives up, or because of local waiters.
//
// checkRefusal cannot see whether local waiters were the reason. It assumes so in two cases. In the first, the try has just arrived. In the second,
// the try was waiting to re-enter: its owner held the lock until this step, or until a step panicked.
func (p *proc) checkRefusal(r *wait.Request, err error) {
	var busy *protocol.BusyError
	onArrival := r.Came == 0 || r.Came == p.w.Now // a state sets Came only for requests that wait, a group for every request
	inside := !r.Owner.IsZero() && (p.checker.inside[r.Owner] || p.panicked >= r.Came)
	if r.Do != wait.Acquire || !r.Try || onArrival || inside || !errors.As(err, &busy) || errors.Is(err, context.Canceled) || p.w.Now >= r.Came+rpc.Window(machinetest.Lease) {
		return
	}
	p.checker.eachMember(func(s *State) {
		if s.orphans.frees(p.w.Now, busy.Holder) && p.w.leasts[busy.Holder] < r.Came {
			p.w.Failf("%s: a try is refused because of %s, which its own process is releasing", p.Name, busy.Holder)
		}
	})
}

func describe(message any) string {
	text := fmt.Sprintf("%T", message)
	switch m := message.(type) {
	case *wait.Request:
		text = fmt.Sprintf("%v %v %p lease=%v try=%v owner=%v by=%v", m.Do, m.Address.Kind.Name, m, m.Lease, m.Try, m.Owner, m.Requester)
	case wait.CancelRequest:
		text = fmt.Sprintf("cancel %v %p", m.Request.Do, m.Request)
	case *callDone:
		text = fmt.Sprintf("%v %s %s held=%v granted=%v", m.class, m.call.do.word(), m.call.terms.Grant, m.held, m.acquired.Granted)
	case lease.Due:
		text = "due " + m.Grant.ID
	case lease.Gone:
		text = "gone " + m.Grant.ID
	}
	return strings.TrimPrefix(text, "actors.")
}

// The methods that follow do what the watchdog does.

func (p *proc) keep(g *lease.Grant) {
	g.Kept.Store(true)
	at := g.Until() - p.w.UpTo(g.Lease/64)
	if g.Watched {
		at = g.Until() + lease.Margin(g.Lease) - g.Lease + g.Lease/3
	}
	p.arm(g, at)
}

func (p *proc) arm(g *lease.Grant, at time.Duration) {
	p.timers[g]++
	number := p.timers[g]
	p.w.At(max(at, p.PausedTo), func() {
		if number == p.timers[g] {
			p.due(g)
		}
	})
}

func (p *proc) due(g *lease.Grant) {
	now, deadline := p.w.Now, g.Until()
	switch {
	case deadline == 0 || !g.Kept.Load():
	case !g.Watched || deadline <= now:
		p.Post(0, lease.Due{Grant: g})
	default:
		renewal := &lockCall{do: callExtend, address: g.Address, terms: scripts.Terms{Grant: g.ID, Lease: g.Renewal(now)}}
		renewal.Timing = rpc.Hasty(now, min(deadline-now, rpc.Window(g.Lease)))
		p.call(renewal, func(done callDone) { p.renewed(g, done) })
	}
}

func (p *proc) renewed(g *lease.Grant, done callDone) {
	now := p.w.Now
	switch {
	case done.class != scripts.Done:
		if g.Until() == 0 || !g.Kept.Load() {
			return
		}
		g.Suspect.Store(true)
		p.Post(0, lease.Due{Grant: g})
		if g.Left(now) > 0 {
			p.arm(g, now+machinetest.Lease/60+p.w.UpTo(machinetest.Lease/30))
		}
	case !done.held:
		p.Post(0, lease.Gone{Grant: g})
	case g.Extend(now, lease.Deadline(done.sent, min(done.call.terms.Lease, g.Lease))):
		g.Suspect.Store(false)
		if g.Final() {
			p.Post(0, lease.Due{Grant: g})
		}
		switch {
		case !g.Kept.Load():
		case g.Least() > done.sent+done.call.terms.Lease:
			p.arm(g, now)
		default:
			p.arm(g, now+g.Lease/3)
		}
	}
}
