package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/scripts"
)

// oracle knows the whole state at every instant, and reports what must never happen. All goroutines share the bubble's time, so two leases
// overlap if and only if both are valid when the later one is granted.
type oracle struct {
	w *world

	lost map[orphan]time.Time // when each orphan was first seen; used by observe alone

	mu         sync.Mutex
	holds      map[*place][]*hold
	kept       map[*place][]kept
	mayStayTo  map[*place]time.Time // see mayStay
	turns      map[string]*turn     // by grant
	waiting    []*wait
	forgets    []forgetting
	violations []string
	overlaps   int // overlaps that were excused
	grants     int
}

// hold is one lease in the hands of a user.
type hold struct {
	p      *process
	who    string
	place  *place
	lease  lease
	member int            // number of the multi lock's member that has this lease, from 1; 0 for other leases
	parts  []*hold        // the members' leases of a multi lock
	owner  holdfast.Owner // zero if the lease has an owner of its own
	reads  bool
	fixed  bool
	own    bool          // no other holder uses its grant
	ends   bool          // the lease is renewed, but ends at its at-most time
	least  time.Duration // the at-least time: how long nobody else may have the lock, or 0 if it has none
	seen   time.Time     // when the holder got the lease
	late   bool          // the holder may have learned of the grant long after it was made
	called time.Time     // when it was requested
	first  time.Time     // when the owner's first entry was requested

	leaving bool // its holder is releasing it
	ended   bool // its holder has released it
	over    bool // it was seen to be invalid
}

// lease is what a user holds: a *holdfast.Lease, or a lease that was granted to an actor.
type lease interface {
	Valid() bool
	ExpiresAt() time.Time
	ID() string
	Token() int64
	Extend(ctx context.Context, d time.Duration) error
	Release(ctx context.Context) error
	Done() <-chan struct{}
	Err() error
}

// id returns the grant's id in Redis.
func (h *hold) id() string {
	if h.member == 0 {
		return h.lease.ID()
	}
	ids := strings.Split(h.lease.ID(), ",")
	return ids[len(ids)-h.member] // see place.of
}

// forgetting is a loss of data on the server at some instant between begin and end.
type forgetting struct {
	what       string
	place      *place // nil for all
	begin, end time.Time
}

func newOracle(w *world) *oracle {
	return &oracle{w: w, holds: map[*place][]*hold{}, kept: map[*place][]kept{}, mayStayTo: map[*place]time.Time{}, turns: map[string]*turn{}}
}

func (o *oracle) violation(format string, args ...any) {
	text := fmt.Sprintf("at %v: ", time.Since(o.w.history.start)) + fmt.Sprintf(format, args...)
	o.w.say("VIOLATION %s", text)
	o.violations = append(o.violations, text)
}

// wrong reports a violation that another part of the simulation has found.
func (o *oracle) wrong(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violation(format, args...)
}

// loses records that the server loses data from now on. The caller then calls the function `over`, which records that the loss ends after the
// duration `in`.
func (o *oracle) loses(what string, p *place) (over func(in time.Duration)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := len(o.forgets)
	o.forgets = append(o.forgets, forgetting{what, p, time.Now(), time.Now().Add(time.Hour)})
	return func(in time.Duration) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.forgets[i].end = time.Now().Add(in)
	}
}

// excused reports whether a lease may be valid although the server does not know it (A4). If the server may have lost the lease, the lease may stay
// valid until its process notices the loss. A healthy process notices the loss at the next renewal. A lease that is not renewed is excused until it
// ends.
func (o *oracle) excused(h *hold) bool {
	now, lease := time.Now(), o.w.plan.lease
	return slices.ContainsFunc(o.forgets, func(f forgetting) bool {
		if f.place != nil && f.place != h.place {
			return false
		}
		if h.fixed {
			return !f.end.Before(h.first)
		}
		bound := lease // in trouble, renewals may fail until the lease ends
		if o.w.untroubled(h.p, f.begin.Add(-lease/3)) {
			bound = o.w.toldWithin()
		}
		return now.Sub(f.end) <= bound
	})
}

// caused reports whether there was a cause for losing a renewed lease: the server forgot it, or a fault prevented its renewal.
func (o *oracle) caused(h *hold) bool {
	since := time.Now().Add(-o.w.plan.lease)
	return !o.w.untroubled(h.p, since) || slices.ContainsFunc(o.forgets, func(f forgetting) bool {
		return (f.place == nil || f.place == h.place) && f.end.After(since.Add(-o.w.plan.lease))
	})
}

// forgot reports whether the server has ever lost anything of a place.
func (o *oracle) forgot(p *place) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.forgets, func(f forgetting) bool { return f.place == nil || f.place == p })
}

// excludes reports whether two leases of a place must never be valid at the same time.
func excludes(a, b *hold) bool {
	return a.place.kind != permits && !same(a.owner, b.owner) && (!a.reads || !b.reads)
}

func same(a, b holdfast.Owner) bool { return a == b && a != (holdfast.Owner{}) }

// kept is an at-least time. Until it ends, nobody but the holder may get the lock, even if the holder has released it.
type kept struct {
	by    *hold
	until time.Time
}

// isKept reports whether an at-least time explains why the server still has a grant. A release tells the server how much of the at-least time is
// left, and the server counts this rest from the moment at which it executes the release. So the grant may outlast the at-least time by the time
// for which the release was in flight.
func (o *oracle) isKept(at *place, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Now().Before(o.mayStayTo[at]) || slices.ContainsFunc(o.kept[at], func(k kept) bool {
		return (k.by.id() == id || scripts.Nobody(k.by.id()) == id) && time.Now().Before(k.by.seen.Add(k.by.least+o.w.plan.lease/3))
	})
}

// keep records an at-least time that ends at `until`. The recorded end is a little earlier, because clocks differ, and because events are recorded a
// little late.
func (o *oracle) keep(h *hold, until time.Time) {
	over := func(k kept) bool { return time.Since(k.by.seen) > k.by.least+o.w.plan.lease/3 }
	o.kept[h.place] = append(slices.DeleteFunc(o.kept[h.place], over), kept{h, until.Add(-h.least/50 - 3*time.Millisecond)})
}

// mayKeep records that a re-entry, although it failed, may have moved the end of an at-least time.
func (o *oracle) mayKeep(h *hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h.seen = time.Now()
	o.keep(h, time.Time{})
}

// mayStay records that a failed acquire of a multi lock may have begun the at-least time of some members.
func (o *oracle) mayStay(h *hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, member := range h.place.members {
		o.mayStayTo[member] = time.Now().Add(h.least + o.w.plan.lease/3)
	}
}

// leasts checks that h does not get the lock within the at-least time of another holder (A10). There are two excuses:
//   - The server has lost data after one of the two owners first requested the lock.
//   - The server has lost data earlier, and the process of h has not noticed the loss yet. The process may then let h share a lost grant with
//     another reader.
func (o *oracle) leasts(h *hold) {
	for _, k := range o.kept[h.place] {
		forgotten := slices.ContainsFunc(o.forgets, func(f forgetting) bool {
			return (f.place == nil || f.place == h.place) && (!f.end.Before(k.by.first) || !f.end.Before(h.first))
		})
		if time.Now().Before(k.until) && k.by.id() != h.id() && !same(k.by.owner, h.owner) && !forgotten && !o.excused(h) {
			o.violation("A10: %s has %s, but %s has kept it for %v more (%s, %s)",
				h.who, h.place.name, k.by.who, time.Until(k.until), k.by.id(), h.id())
		}
	}
	if h.least > 0 {
		o.keep(h, h.called.Add(h.least))
	}
}

// granted checks and records every lease at the instant at which it is returned.
func (o *oracle) granted(h *hold) {
	if h.place.kind != multiLock && h.lease.Valid() {
		h.p.ledger.knows(h.place.name, h.id())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.grants++
	o.w.counted[h.place.kind]++
	h.seen = time.Now()
	if h.place.kind != multiLock {
		o.holder(h)
		return
	}
	for i, member := range h.place.members {
		part := *h
		part.place, part.member, part.late = member, i+1, true // late: the multi lock may have acquired this member long before the last one
		part.own = part.own && part.ends                       // members get an at-least time only when the multi lock has them all
		h.parts = append(h.parts, &part)
		o.holder(&part)
	}
}

// holder checks a new holder of a place (A1 to A4, A8 to A10).
func (o *oracle) holder(h *hold) {
	valid := 0
	o.holds[h.place] = slices.DeleteFunc(o.holds[h.place], func(x *hold) bool { return x.ended || x.p.isDead() })
	for _, other := range o.holds[h.place] {
		if !h.lease.Valid() || !other.lease.Valid() {
			continue
		}
		valid++
		switch {
		case !excludes(h, other):
		case o.excused(other) || o.excused(h):
			o.overlaps++
		default:
			o.violation("A3: %s and %s both hold %s (%s, %s)", other.who, h.who, h.place.name, other.id(), h.id())
		}
	}
	if h.place.kind == permits && valid >= permitCount && !o.excused(h) && !o.anyExcused(h.place) {
		o.violation("A3: %d permits of %s are held, but there are only %d", valid+1, h.place.name, permitCount)
	}
	o.letIn(h)
	o.inTurn(h)
	o.leasts(h)
	o.holds[h.place] = append(o.holds[h.place], h)
	o.token(h)
	o.looks(h)
}

// turn is the succession of local holders that used one grant.
type turn struct {
	began time.Time // when its first holder was seen
	late  bool      // the turn may have begun before its first holder was seen
	count int
	freed time.Time // when a holder last began to release the grant, or zero if none has; the grant may linger from then on
}

// inTurn checks the bounds of hand-offs inside a process (A8).
func (o *oracle) inTurn(h *hold) {
	again := slices.ContainsFunc(o.holds[h.place], func(x *hold) bool { return x.id() == h.id() && same(x.owner, h.owner) })
	if again || h.reads {
		return
	}
	t := o.turns[h.id()]
	if t == nil {
		t = &turn{began: time.Now(), late: h.late}
		o.turns[h.id()] = t
	}
	if t.count++; t.count == 1 {
		return
	}
	if t.freed.IsZero() && slices.ContainsFunc(o.holds[h.place], func(x *hold) bool { return x.id() == h.id() && x.forsaken() }) {
		t.freed = time.Now()
	}
	bounds, passed := o.w.plan.bounds(), time.Since(t.began)
	if o.w.plan.linger > 0 && !t.freed.IsZero() {
		bounds.Max, bounds.For = math.MaxInt, max(bounds.For, t.freed.Sub(t.began)+o.w.plan.linger)
	}
	switch end := h.lease.ExpiresAt(); {
	case h.place.kind == fairLock || h.place.kind == permits || h.fixed || h.own:
		o.violation("A8: %s has the grant %s of %s, which another holder had already", h.who, h.id(), h.place.name)
	case t.count > bounds.Max:
		o.violation("A8: %s is holder number %d of %s in a turn of at most %d", h.who, t.count, h.place.name, bounds.Max)
	case h.late || t.late:
	case passed >= bounds.For:
		o.violation("A8: %s was given %s %v after the turn began, which may last %v", h.who, h.place.name, passed, bounds.For)
	case !end.IsZero() && time.Until(end) <= o.w.plan.lease/3:
		o.violation("A8: %s was given %s with %v left of %v", h.who, h.place.name, time.Until(end), o.w.plan.lease)
	}
}

// forsaken reports whether h is a member of a multi lock that has lost another member. The runtime then releases this member, and its grant may
// linger.
func (h *hold) forsaken() bool { return h.member > 0 && h.lease.Err() != nil }

func (o *oracle) anyExcused(p *place) bool { return slices.ContainsFunc(o.holds[p], o.excused) }

// token checks a fencing token against the tokens that were known when it was requested (A1).
func (o *oracle) token(h *hold) {
	token := h.lease.Token()
	if (token != 0) != (h.place.kind == fencedLock) {
		o.violation("A1: %s has token %d of %s", h.who, token, h.place.name)
	}
	if h.place.kind != fencedLock {
		return
	}
	if slices.ContainsFunc(h.place.tokens, func(t tokenGiven) bool { return t.token == token && same(t.owner, h.owner) }) {
		return // a re-entry
	}
	for _, t := range h.place.tokens {
		switch {
		case t.token == token:
			o.violation("A1: %s has token %d of %s, which another holder had already", h.who, token, h.place.name)
		case t.token > token && t.at.Before(h.called) && !o.excused(h): // a process that has not noticed a loss may use tokens that it has reserved
			o.violation("A1: %s has token %d of %s, but %d was given out before it asked", h.who, token, h.place.name, t.token)
		}
	}
	h.place.tokens = append(h.place.tokens, tokenGiven{token, h.owner, time.Now()})
}

// look checks a lease from time to time, as its holder would.
func (o *oracle) look(h *hold) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	valid := true
	for _, part := range append(slices.Clone(h.parts), h) {
		if part.place.kind != multiLock {
			valid = o.looks(part) && valid
		}
	}
	return valid
}

// looks checks a lease. While the lease is valid, its holder may use the resource (A2), and the server knows the lease (A4). A lease that was seen to
// be invalid never becomes valid again (A4). A renewed lease is not lost without a cause (A3).
func (o *oracle) looks(h *hold) bool {
	switch valid := h.lease.Valid(); {
	case h.p.isDead():
		return false
	case !valid:
		o.keeps(h)
		if !h.over && !h.leaving && !h.fixed && !h.ends && !h.p.over() && !o.caused(h) {
			o.violation("A3: %s has lost %s without a cause", h.who, h.place.name)
		}
		h.over = true
		return false
	case h.over:
		o.violation("A4: %s's lease of %s is valid again", h.who, h.place.name)
	}
	h.place.valid[h.p] = time.Now()
	if h.place.kind == fencedLock {
		token := h.lease.Token()
		if token < h.place.register && !o.excused(h) {
			o.violation("A2: %s holds %s with token %d, but the resource has seen %d", h.who, h.place.name, token, h.place.register)
		}
		h.place.register = max(h.place.register, token)
	}
	if !h.place.known(h.id()) && !o.excused(h) {
		o.violation("A4: %s's lease of %s is valid, but the server does not know %s", h.who, h.place.name, h.id())
	}
	return true
}

// leaves records that a holder begins to release.
func (o *oracle) leaves(h *hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, part := range append(slices.Clone(h.parts), h) {
		part.leaving = true
		if t := o.turns[part.id()]; t != nil {
			t.freed = time.Now()
		}
	}
}
