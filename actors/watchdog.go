package actors

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/gateway"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
	"github.com/holdfast-go/holdfast/timerwheel"
)

// watchdog keeps the leases alive. Its wheel says which grants are due; they are renewed by scripts of RenewBatch keys, so the
// cost is one renewal per slot of the wheel and not one per lock. It never moves a deadline on an error: the lock actor is told
// and watches the clock, while the renewal is repeated until the deadline.
//
// Fixed leases sit in the wheel too, up to their deadline: a timer for each would cost ten times as much.
type watchdog struct {
	// fixed at construction
	engine *Engine
	wheel  *timerwheel.Wheel[*lease.Grant]
	self   *actor.PID

	leaks leaks // leases that nobody has any more

	// owned by the actor
	failed  map[*timerwheel.Timer[*lease.Grant]]struct{} // grants whose last renewal failed; some have ended since
	flying  int                                          // renewals without an answer
	outages int                                          // how often Redis has come back
	behind  []*actor.PID                                 // who waits for them

	// The wheel sleeps on a timer, which stands still with the machine, up to the next grant that is due. So while it holds any it
	// is nudged now and then: it looks at the clock, and hands over what is due after a suspension.
	nudge   timerwheel.Timer[*lease.Grant] // is due at once, and nobody's
	nudger  clock.Timer                    // arms nudge
	nudging atomic.Bool                    // nudger is set, or nudge is on its way
}

type (
	// grantsDue is one slot of the wheel.
	grantsDue struct {
		timers []*timerwheel.Timer[*lease.Grant]
	}
	// renewal is the tag of a renewal script.
	renewal struct {
		kind    *scripts.Kind
		timers  []*timerwheel.Timer[*lease.Grant]
		grants  []string      // their ids
		bound   time.Duration // the earliest of their deadlines
		outages int           // how often Redis had come back when this was sent
	}
	// renewalKey is what the grants of one renewal have in common: one script cannot reach into two parts of a cluster.
	renewalKey struct {
		kind *scripts.Kind
		part uint16
	}
)

// slotsPerLease makes slots of lease/66: narrower than the lease/64 by which a renewal may come early, and 22 of them are
// exactly one renewal interval, so that grants of one slot stay together.
const slotsPerLease = 66

// nudgeEvery bounds how late, in time awake, a loss is told that came about while the machine was suspended.
const nudgeEvery = time.Second

func newWatchdog(e *Engine) (*watchdog, error) {
	w := &watchdog{engine: e, failed: map[*timerwheel.Timer[*lease.Grant]]struct{}{}}
	var err error
	w.wheel, err = timerwheel.New(timerwheel.Options{
		Width: max(e.policy.Lease/slotsPerLease, time.Millisecond), Now: e.clock.Now,
	}, func(due []*timerwheel.Timer[*lease.Grant]) { e.root.Send(w.self, grantsDue{due}) })
	if err != nil {
		return nil, err
	}
	w.nudger = e.clock.AfterFunc(nudgeEvery, func() { w.wheel.Add(&w.nudge, 0) })
	w.nudger.Stop()
	return w, nil
}

// stop ends the wheel. Nothing may be kept any more.
func (w *watchdog) stop() {
	w.wheel.Stop()
	w.nudger.Stop()
}

// keep watches a grant from now on: its next renewal, or its deadline. It may be called from any actor.
func (w *watchdog) keep(g *lease.Grant) {
	at := g.Until()
	if g.Watched {
		at += lease.Margin(g.Lease) - g.Lease + g.Lease/3
	}
	g.Kept.Store(true)
	w.wheel.Add(&g.Timer, at)
	w.nudgeLater()
}

// nudgeLater sets the nudger, unless it is.
func (w *watchdog) nudgeLater() {
	if !w.nudging.Load() && w.nudging.CompareAndSwap(false, true) {
		w.nudger.Reset(nudgeEvery)
	}
}

// onNudge goes on nudging while there is anything to lose. Who keeps a grant meanwhile sees that nobody nudges, or is seen here.
func (w *watchdog) onNudge() {
	maps.DeleteFunc(w.failed, func(t *timerwheel.Timer[*lease.Grant], _ struct{}) bool { return !t.Value.Kept.Load() })
	for _, leak := range w.leaks.take() {
		if !leak.Notice(w.engine) {
			w.leaks.add(leak)
		}
	}
	w.nudging.Store(false)
	if w.wheel.Len() > 0 {
		w.nudgeLater()
	}
}

// drop ends that, before anything else is sent for the grant. A renewal that is on its way already is not followed by another.
func (w *watchdog) drop(g *lease.Grant) {
	g.Kept.Store(false)
	w.wheel.Cancel(&g.Timer)
}

// Receive is the actor's only entry.
func (w *watchdog) Receive(c actor.Context) {
	defer w.engine.events.RecoverIn("watchdog")
	switch m := c.Message().(type) {
	case grantsDue:
		w.renewAll(c, m.timers, w.engine.renewBatch)
		w.wheel.Recycle(m.timers)
	case *rpc.Result:
		w.onRenewed(c, m)
		w.onAnswer(c)
	case gateway.Recovered:
		w.onBack(c, m)
	}
}

// onBack renews at once what could not be renewed, instead of when its time has come. Who has sent the news is told to go on when
// every renewal has been answered.
func (w *watchdog) onBack(c actor.Context, m gateway.Recovered) {
	var due []*timerwheel.Timer[*lease.Grant]
	for t := range w.failed {
		if w.wheel.Cancel(t) { // else it is on its way already
			due = append(due, t)
		}
	}
	clear(w.failed)
	w.outages++
	slices.SortFunc(due, func(a, b *timerwheel.Timer[*lease.Grant]) int { // who has least time left goes first
		return cmp.Or(cmp.Compare(a.Value.Until(), b.Value.Until()), cmp.Compare(a.Value.ID, b.Value.ID))
	})
	w.renewAll(c, due, w.engine.renewBatch)
	switch {
	case m.From == nil:
	case w.flying > 0:
		w.behind = append(w.behind, m.From)
	default:
		c.Send(m.From, gateway.Resume{})
	}
}

// onAnswer counts a renewal as answered.
func (w *watchdog) onAnswer(c actor.Context) {
	if w.flying--; w.flying > 0 {
		return
	}
	for _, pid := range w.behind {
		c.Send(pid, gateway.Resume{})
	}
	w.behind = nil
}

// renewAll renews the watched ones among grants that are due, at most that many in one script. Those that end soon are left to their
// lock actors, which have exact timers.
func (w *watchdog) renewAll(c actor.Context, timers []*timerwheel.Timer[*lease.Grant], most int) {
	now := w.engine.clock.Now()
	batches := map[renewalKey]*renewal{}
	var order []renewalKey
	flush := func(r *renewal) { w.renew(c, r, now, min(r.bound, now+rpc.Window(w.engine.policy.Lease))) }
	for _, t := range timers {
		g := t.Value
		if g == nil {
			w.onNudge()
			continue
		}
		deadline := g.Until()
		switch {
		case deadline == 0 || !g.Kept.Load():
			continue
		case !g.Watched || deadline <= now:
			c.Send(g.Actor.(*actor.PID), lease.Due{Grant: g})
			continue
		}
		if g.Tended.Load() {
			c.Send(g.Actor.(*actor.PID), lease.CountRequesters{})
		}
		key := renewalKey{g.Address.Kind, g.Address.Part}
		batch := batches[key]
		if batch == nil {
			batch = &renewal{kind: key.kind, bound: deadline}
			batches[key] = batch
			order = append(order, key)
		}
		batch.timers = append(batch.timers, t)
		batch.bound = min(batch.bound, deadline)
		if len(batch.timers) == most {
			flush(batch)
			delete(batches, key)
		}
	}
	for _, key := range order {
		if batch := batches[key]; batch != nil {
			delete(batches, key) // it may be in the order more than once
			flush(batch)
		}
	}
}

// renew sends one script. It runs no later than the earliest of the old deadlines: after that the grant counts as lost.
func (w *watchdog) renew(c actor.Context, r *renewal, now, deadline time.Duration) {
	raws := make([]string, len(r.timers))
	r.grants = make([]string, len(r.timers))
	for i, t := range r.timers {
		raws[i], r.grants[i] = t.Value.Address.Raw, t.Value.ID
		delete(w.failed, t)
	}
	w.flying++
	r.outages = w.outages
	c.Send(w.engine.renewals, &rpc.Call{
		Call: r.kind.Renew(&w.engine.site, raws, r.grants, w.engine.policy.Lease), Timing: rpc.Hasty(now, deadline-now), From: c.Self(), Tag: r,
	})
}

func (w *watchdog) onRenewed(c actor.Context, m *rpc.Result) {
	r := m.Call.Tag.(*renewal)
	err := m.Err
	var gone []int
	if m.Class == scripts.Done {
		gone, err = scripts.ReadRenewed(m.Reply, r.grants)
	}
	switch {
	case scripts.Scattered(err) && len(r.timers) > 1: // for as long as their slot is on its way: that may be longer than a lease
		w.renewAll(c, r.timers, 1)
		return
	case err != nil:
		w.onFailed(c, r, scripts.Explain(err))
		return
	}
	for _, i := range gone {
		g := r.timers[i].Value
		r.timers[i] = nil
		c.Send(g.Actor.(*actor.PID), lease.Gone{Grant: g})
	}
	now := w.engine.clock.Now()
	deadline := lease.Deadline(m.Sent, w.engine.policy.Lease)
	kept := r.timers[:0]
	for _, t := range r.timers {
		switch {
		case t == nil || t.Value.Until() == 0:
		case t.Value.Extend(now, deadline):
			t.Value.Suspect.Store(false)
			kept = append(kept, t)
		default: // the answer came too late for it: it is in no wheel any more, so nobody else would tell
			c.Send(t.Value.Actor.(*actor.PID), lease.Due{Grant: t.Value})
		}
	}
	w.arm(kept, now+w.engine.policy.Lease/3)
}

// onFailed tells the lock actors, and tries again soon: a few times before the deadline, with jitter.
func (w *watchdog) onFailed(c actor.Context, r *renewal, err error) {
	now := w.engine.clock.Now()
	var kept []*timerwheel.Timer[*lease.Grant]
	for _, t := range r.timers {
		g := t.Value
		left := g.Left(now)
		if g.Until() == 0 || !g.Kept.Load() {
			continue
		}
		if !g.Suspect.Swap(true) {
			w.engine.events.Emit(protocol.RenewFailed{Name: g.Address.Name, ID: g.ID, Left: left, Err: err})
		}
		c.Send(g.Actor.(*actor.PID), lease.Due{Grant: g})
		if left > 0 {
			kept = append(kept, t)
			w.failed[t] = struct{}{}
		}
	}
	if r.outages != w.outages { // it was sent before Redis came back: it is one of those that go first
		for _, t := range kept {
			delete(w.failed, t)
		}
		w.renewAll(c, kept, w.engine.renewBatch)
		return
	}
	pause := min(w.engine.policy.Lease/30, time.Second)
	w.arm(kept, now+pause/2+w.engine.policy.Jitter(pause))
}

// arm puts grants back into the wheel, but not those that ended meanwhile.
func (w *watchdog) arm(timers []*timerwheel.Timer[*lease.Grant], at time.Duration) {
	w.wheel.AddAll(timers, at)
	for _, t := range timers {
		if !t.Value.Kept.Load() {
			w.wheel.Cancel(t)
		}
	}
	w.nudgeLater()
}
