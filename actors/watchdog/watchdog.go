package watchdog

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/gateway"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
	"github.com/holdfast-go/holdfast/timerwheel"
)

// Config is what the watchdog needs from its runtime.
type Config struct {
	Clock    clock.Clock
	Root     *actor.RootContext
	Events   *outbox.Events
	Recorder *trace.Recorder
	Site     *scripts.Site
	Gateway  gateway.Gateway // sends the renewals

	Lease  time.Duration                          // the TTL that most renewals set
	Batch  int                                    // the most locks that one script renews
	Jitter func(most time.Duration) time.Duration // returns a random time of at least 0 and less than its argument
	Nudged func()                                 // called about once a second while any grant is kept
}

// Watchdog keeps the leases alive. Its wheel hands over the grants that are due, one slot at a time. One script renews many grants of a slot, so the
// number of scripts depends on the number of slots, and not on the number of locks. If a renewal fails, the deadline of the grant does not
// move. The watchdog repeats the renewal until that deadline. It also sends a lease.Due to the lock's actor, so that the actor watches the
// deadline meanwhile.
//
// Grants with fixed leases are in the wheel, too, until their deadline. A separate timer for each of them would cost ten times as much.
type Watchdog struct {
	Config
	Self  *actor.PID // the watchdog's own; set before the first Keep
	wheel *timerwheel.Wheel[*lease.Grant]

	// Leases of WithRenewedLease may be too short for the slots of the field `wheel`. Such leases are in a second wheel, the field `fine`, which is made
	// when the first of them is kept.
	fine     atomic.Pointer[timerwheel.Wheel[*lease.Grant]]
	makeFine sync.Once

	// owned by the actor
	failed      map[*timerwheel.Timer[*lease.Grant]]struct{} // grants whose last renewal failed; some may have ended since
	inFlight    int                                          // renewals without an answer
	recoveries  int                                          // how often Redis has come back
	resumeLater []gateway.Gateway                            // gateways to be resumed when no renewal is in flight

	// A wheel sleeps on a timer until the next grant is due. The timer stands still while the machine is suspended. So as long as any grant is kept,
	// the nudger wakes the first wheel (`wheel`) at intervals of nudgeEvery. The woken wheel reads the clock, and hands over the grants that became
	// due during a suspension. The second wheel (`fine`) needs no nudge: if it contains a grant, it wakes at least once per revolution (1024 ms).
	nudge   timerwheel.Timer[*lease.Grant] // is due at once, and belongs to no grant
	nudger  clock.Timer                    // adds nudge to the wheel
	nudging atomic.Bool                    // nudger is set, or nudge is in the wheel or on its way to the actor
}

type (
	// due is a message of a wheel to the watchdog, with the grants of one slot.
	due struct {
		timers []*timerwheel.Timer[*lease.Grant]
	}
	// renewal is the tag of a renewal script.
	renewal struct {
		kind       *scripts.Kind
		timers     []*timerwheel.Timer[*lease.Grant]
		grants     []string      // their ids
		lease      time.Duration // the TTL that it sets
		usual      time.Duration // the length of the grants' leases
		bound      time.Duration // the earliest deadline of the grants
		recoveries int           // value of Watchdog.recoveries when this renewal was sent
		asked      time.Duration // when it was submitted
	}
	// renewalKey has the properties that all grants of one renewal share. The field `part` is the slot in a Redis Cluster, because one script cannot
	// use keys of two slots.
	renewalKey struct {
		kind  *scripts.Kind
		part  uint16
		lease time.Duration
		usual time.Duration
	}
)

// slotsPerLease is the number of slots into which the length of a lease is divided. A renewal interval is exactly 22 slots, so grants that are in one
// slot stay together. The watchdog may report the end of a fixed lease up to one slot early. The random tests of package lock cover this: in them,
// the watchdog reports the end up to lease/64 early, which is more than one slot if the lease is as long as Options.Lease.
const slotsPerLease = 66

// coarsest decides in which of the two wheels a lease is. A renewed lease that is shorter than Options.Lease/coarsest is in Watchdog.fine. Any other
// lease is in Watchdog.wheel. The watchdog may renew a lease of Watchdog.wheel early, by about one slot of that wheel. If the length of the lease is
// Options.Lease/coarsest, such a slot is about a fifth of the renewal interval.
const coarsest = 4

// nudgeEvery is the interval of nudges. If a grant in Watchdog.wheel is lost while the machine is suspended, the holder learns of the loss at most
// this long after the end of the suspension.
const nudgeEvery = time.Second

// New makes the watchdog. The caller must stop it.
func New(c Config) (*Watchdog, error) {
	w := &Watchdog{Config: c, failed: map[*timerwheel.Timer[*lease.Grant]]struct{}{}}
	var err error
	if w.wheel, err = w.newWheel(max(c.Lease/slotsPerLease, time.Millisecond)); err != nil {
		return nil, err
	}
	w.nudger = c.Clock.AfterFunc(nudgeEvery, func() {
		w.wheel.Add(&w.nudge, 0)
		w.wheel.Wake()
	})
	w.nudger.Stop()
	return w, nil
}

func (w *Watchdog) newWheel(width time.Duration) (*timerwheel.Wheel[*lease.Grant], error) {
	return timerwheel.New(timerwheel.Options{Width: width, Now: w.Clock.Now}, func(timers []*timerwheel.Timer[*lease.Grant]) {
		w.Send(due{timers})
	})
}

// Send sends the watchdog a message.
func (w *Watchdog) Send(message any) { w.Root.Send(w.Self, message) }

// wheelOf returns the wheel for a grant.
func (w *Watchdog) wheelOf(g *lease.Grant) *timerwheel.Wheel[*lease.Grant] {
	if !g.Watched || g.Lease >= w.Lease/coarsest {
		return w.wheel
	}
	w.makeFine.Do(func() {
		fine, _ := w.newWheel(time.Millisecond) // no error: newWheel fails only if an option is out of range
		w.fine.Store(fine)
	})
	return w.fine.Load()
}

// Stop ends the wheels. Keep must not be called any more.
func (w *Watchdog) Stop() {
	w.wheel.Stop()
	if fine := w.fine.Load(); fine != nil {
		fine.Stop()
	}
	w.nudger.Stop()
}

// Keep starts watching a grant: the watchdog will renew the lease or, if the lease is fixed, report its end. Any actor may call Keep.
func (w *Watchdog) Keep(g *lease.Grant) {
	at := g.Until()
	switch {
	case g.Final(): // from now on, renewals only show whether Redis still has the grant; the lock's actor watches the deadline
		at = slotOf(w.Clock.Now()+g.Lease/3, g.Lease)
	case g.Watched:
		at = slotOf(at+lease.Margin(g.Lease)-g.Lease+g.Lease/3, g.Lease)
	}
	g.Kept.Store(true)
	w.wheelOf(g).Add(&g.Timer, at)
	w.nudgeLater()
}

// Drop stops watching a grant. A lock's actor calls Drop before it sends the release of the grant. So the watchdog starts no renewal after the
// release. Only a renewal that was in flight before the release can reach Redis after the release.
func (w *Watchdog) Drop(g *lease.Grant) {
	g.Kept.Store(false)
	w.wheelOf(g).Cancel(&g.Timer)
}

// slotOf returns the beginning of the slot in which the renewal of a lease of this length is due. Grants that are due in one slot are renewed
// together.
func slotOf(at, length time.Duration) time.Duration { return at.Truncate(length / slotsPerLease) }

// nudgeLater sets the nudger, unless it is already set.
func (w *Watchdog) nudgeLater() {
	if !w.nudging.Load() && w.nudging.CompareAndSwap(false, true) {
		w.nudger.Reset(nudgeEvery)
	}
}

// onNudge sets the nudger again while a wheel holds a grant. It clears the flag `nudging` before it looks at the wheels. So if Keep runs at the same
// time, either Keep finds the flag cleared and sets the nudger, or onNudge finds Keep's grant.
func (w *Watchdog) onNudge() {
	maps.DeleteFunc(w.failed, func(t *timerwheel.Timer[*lease.Grant], _ struct{}) bool { return !t.Value.Kept.Load() })
	w.Nudged()
	w.nudging.Store(false)
	kept := w.wheel.Len()
	if fine := w.fine.Load(); fine != nil {
		kept += fine.Len()
	}
	if kept > 0 {
		w.nudgeLater()
	}
}

// Receive is the actor's only entry.
func (w *Watchdog) Receive(c actor.Context) {
	defer w.Events.RecoverIn("watchdog")
	switch m := c.Message().(type) {
	case due:
		w.renewAll(m.timers, w.Batch)
		w.wheel.Recycle(m.timers)
	case *rpc.Result:
		w.onRenewed(m) // before onAnswered, which resumes the gateways if no renewal is in flight: onRenewed may send another renewal
		w.onAnswered()
	case gateway.Recovered:
		w.onRecovered(m)
	}
}

// onRecovered repeats the failed renewals at once, instead of after their pause. The gateway that sent the message resumes only when every
// renewal has been answered. If it resumed sooner, its acquires could delay the renewals of leases that are about to expire.
func (w *Watchdog) onRecovered(m gateway.Recovered) {
	var again []*timerwheel.Timer[*lease.Grant]
	for t := range w.failed {
		if w.wheelOf(t.Value).Cancel(t) { // if Cancel fails, the wheel has handed the timer over already
			again = append(again, t)
		}
	}
	clear(w.failed)
	w.recoveries++
	slices.SortFunc(again, func(a, b *timerwheel.Timer[*lease.Grant]) int { // the earliest deadline first
		return cmp.Or(cmp.Compare(a.Value.Until(), b.Value.Until()), cmp.Compare(a.Value.ID, b.Value.ID))
	})
	w.renewAll(again, w.Batch)
	switch {
	case m.From == nil:
	case w.inFlight > 0:
		w.resumeLater = append(w.resumeLater, m.From)
	default:
		m.From.Resume()
	}
}

// onAnswered counts a renewal as answered.
func (w *Watchdog) onAnswered() {
	if w.inFlight--; w.inFlight > 0 {
		return
	}
	for _, g := range w.resumeLater {
		g.Resume()
	}
	w.resumeLater = nil
}

// renewAll renews grants whose leases the watchdog renews. One script renews at most `limit` grants. If a lease is fixed, or if its deadline has
// passed, renewAll sends a lease.Due to the lock's actor instead. That actor has an exact timer.
func (w *Watchdog) renewAll(timers []*timerwheel.Timer[*lease.Grant], limit int) {
	now := w.Clock.Now()
	batches := map[renewalKey]*renewal{}
	var order []renewalKey
	flush := func(r *renewal) { w.renew(r, now, min(r.bound, now+rpc.Window(r.usual))) }
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
			g.Actor.Send(lease.Due{Grant: g})
			continue
		}
		if g.Tended.Load() {
			g.Actor.Send(lease.CountRequesters{})
		}
		key := renewalKey{g.Address.Kind, g.Address.Part, g.Renewal(now), g.Lease}
		batch := batches[key]
		if batch == nil {
			batch = &renewal{kind: key.kind, lease: key.lease, usual: key.usual, bound: deadline}
			batches[key] = batch
			order = append(order, key)
		}
		batch.timers = append(batch.timers, t)
		batch.bound = min(batch.bound, deadline)
		if len(batch.timers) == limit {
			flush(batch)
			delete(batches, key)
		}
	}
	for _, key := range order {
		if batch := batches[key]; batch != nil {
			delete(batches, key) // `order` may contain the key more than once
			flush(batch)
		}
	}
}

// renew sends one script, which Redis must not execute after the parameter `deadline`. The parameter is no later than the earliest deadline of the
// grants, because a grant counts as lost once its deadline has passed.
func (w *Watchdog) renew(r *renewal, now, deadline time.Duration) {
	raws := make([]string, len(r.timers))
	r.grants = make([]string, len(r.timers))
	for i, t := range r.timers {
		raws[i], r.grants[i] = t.Value.Address.Raw, t.Value.ID
		delete(w.failed, t)
	}
	w.inFlight++
	r.recoveries, r.asked = w.recoveries, now
	w.Gateway.Submit(&rpc.Call{
		Call: r.kind.Renew(w.Site, raws, r.grants, r.lease), Timing: rpc.Hasty(now, deadline-now), From: w, Tag: r, Locks: len(r.timers),
	})
}

// onRenewed moves the deadlines of the grants that Redis has renewed.
func (w *Watchdog) onRenewed(m *rpc.Result) {
	r := m.Call.Tag.(*renewal)
	err := m.Err
	var gone []int
	if m.Class == scripts.Done {
		gone, err = scripts.ReadRenewed(m.Reply, r.grants)
	}
	switch {
	case scripts.Scattered(err) && len(r.timers) > 1: // the keys' slot is being moved, perhaps for longer than a lease: send a script for each grant
		w.renewAll(r.timers, 1)
		return
	case err != nil:
		w.onFailed(r, scripts.Explain(err))
		return
	}
	for _, i := range gone {
		g := r.timers[i].Value
		r.timers[i] = nil
		g.Actor.Send(lease.Gone{Grant: g})
	}
	now := w.Clock.Now()
	w.Recorder.Renewed(trace.Renewed{Leases: len(r.timers), Gone: len(gone), Margin: r.bound - now, Took: now - r.asked})
	deadline := lease.Deadline(m.Sent, min(r.lease, r.usual))
	kept := r.timers[:0]
	// Grants whose at-least time was extended after this renewal was sent. The at-least time now ends later than the TTL that this renewal has set.
	var short []*timerwheel.Timer[*lease.Grant]
	for _, t := range r.timers {
		switch {
		case t == nil || t.Value.Until() == 0:
		case t.Value.Extend(now, deadline):
			t.Value.Suspect.Store(false)
			if t.Value.Least() > m.Sent+r.lease {
				short = append(short, t)
			} else {
				kept = append(kept, t)
			}
			if t.Value.Final() {
				t.Value.Actor.Send(lease.Due{Grant: t.Value})
			}
		default:
			// The answer came after the deadline. No wheel contains the grant any more, so only this message tells the lock's actor about it.
			t.Value.Actor.Send(lease.Due{Grant: t.Value})
		}
	}
	w.arm(kept, slotOf(now+r.usual/3, r.usual))
	w.renewAll(short, w.Batch)
}

// onFailed notifies the locks' actors of a failed renewal. It repeats the renewal after a pause with jitter. The pause is short, so there are several
// attempts before the deadline.
func (w *Watchdog) onFailed(r *renewal, err error) {
	now := w.Clock.Now()
	w.Recorder.Renewed(trace.Renewed{Leases: len(r.timers), Margin: r.bound - now, Took: now - r.asked, Err: err})
	var kept []*timerwheel.Timer[*lease.Grant]
	for _, t := range r.timers {
		g := t.Value
		left := g.Left(now)
		if g.Until() == 0 || !g.Kept.Load() {
			continue
		}
		if !g.Suspect.Swap(true) {
			w.Events.Emit(protocol.RenewFailed{Kind: g.Address.Kind.Name, Name: g.Address.Name, ID: g.ID, Left: left, Err: err})
		}
		g.Actor.Send(lease.Due{Grant: g})
		if left > 0 {
			kept = append(kept, t)
			w.failed[t] = struct{}{}
		}
	}
	if r.recoveries != w.recoveries { // r was sent before Redis came back, so it is repeated at once, as in onRecovered
		for _, t := range kept {
			delete(w.failed, t)
		}
		w.renewAll(kept, w.Batch)
		return
	}
	pause := min(r.usual/30, time.Second)
	w.arm(kept, now+pause/2+w.Jitter(pause))
}

// arm puts grants back into their wheel. The leases of the grants have the same length. If Drop ran just before arm, Drop found no timer to cancel.
// So after arm has added the timers, it cancels those of the grants that are not kept any more.
func (w *Watchdog) arm(timers []*timerwheel.Timer[*lease.Grant], at time.Duration) {
	if len(timers) == 0 {
		return
	}
	wheel := w.wheelOf(timers[0].Value)
	wheel.AddAll(timers, at)
	for _, t := range timers {
		if !t.Value.Kept.Load() {
			wheel.Cancel(t)
		}
	}
	w.nudgeLater()
}
