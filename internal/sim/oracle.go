package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/scripts"
)

// oracle knows everything at every instant, and says what must never be. An instant of the bubble's time is an instant for everybody:
// two leases overlap if and only if both are valid when the later one is granted.
type oracle struct {
	w *world

	lost map[orphan]time.Time // since when; touched only by observe

	mu         sync.Mutex
	holds      map[*place][]*hold
	kept       map[*place][]kept
	turns      map[string]*turn // by grant
	waiting    []*wait
	forgets    []forgetting
	violations []string
	overlaps   int // that had an excuse
	grants     int
}

// hold is one lease in the hands of a user.
type hold struct {
	p      *process
	who    string
	place  *place
	lease  lease
	member int            // of a multi lock's lease, from 1; 0: it is none
	parts  []*hold        // of a multi lock's lease
	owner  holdfast.Owner // zero: one of its own
	reads  bool
	fixed  bool
	own    bool          // its grant is for no other holder
	ends   bool          // it ends by itself although it is renewed
	least  time.Duration // how long nobody else may have the lock; 0: as soon as this one has ended
	seen   time.Time     // when it was granted, as its holder saw it
	late   bool          // its holder may have come to know of it later than it was granted
	called time.Time     // when it was asked for
	first  time.Time     // when that was that the owner entered for the first time

	leaving bool // its holder is giving it back
	ended   bool // its holder has given it back
	over    bool // it was seen not to be valid
}

// lease is what a user holds: a *holdfast.Lease, or one that an actor was told of.
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

// id is the grant in Redis.
func (h *hold) id() string {
	if h.member == 0 {
		return h.lease.ID()
	}
	ids := strings.Split(h.lease.ID(), ",")
	return ids[len(ids)-h.member] // see place.of
}

// forgetting is the server's loss of what somebody relies on, at some instant from begin to end.
type forgetting struct {
	what       string
	place      *place // nil: all
	begin, end time.Time
}

func newOracle(w *world) *oracle {
	return &oracle{w: w, holds: map[*place][]*hold{}, kept: map[*place][]kept{}, turns: map[string]*turn{}}
}

func (o *oracle) violation(format string, args ...any) {
	text := fmt.Sprintf("at %v: ", time.Since(o.w.history.start)) + fmt.Sprintf(format, args...)
	o.w.say("VIOLATION %s", text)
	o.violations = append(o.violations, text)
}

// wrong is for those who find out something themselves.
func (o *oracle) wrong(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violation(format, args...)
}

// loses says that the server forgets from now on; the returned func says that it has ended, or will have in a while.
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

// excused reports whether a lease may be valid although the server does not know it: it has forgotten the lease, and the watchdog
// cannot have found out, or there is none (A4). With all well it finds out when it renews next; else the lease ends by itself.
func (o *oracle) excused(h *hold) bool {
	now, lease := time.Now(), o.w.plan.lease
	return slices.ContainsFunc(o.forgets, func(f forgetting) bool {
		if f.place != nil && f.place != h.place {
			return false
		}
		if h.fixed {
			return !f.end.Before(h.first)
		}
		bound := lease // its grant may be older than the lease is
		if o.w.untroubled(h.p, f.begin.Add(-lease/3)) {
			bound = o.w.toldWithin()
		}
		return now.Sub(f.end) <= bound
	})
}

// caused reports whether a lease that the watchdog renews may have been lost: the server has forgotten it, or something else was wrong
// while it could have been renewed.
func (o *oracle) caused(h *hold) bool {
	since := time.Now().Add(-o.w.plan.lease)
	return !o.w.untroubled(h.p, since) || slices.ContainsFunc(o.forgets, func(f forgetting) bool {
		return (f.place == nil || f.place == h.place) && f.end.After(since.Add(-o.w.plan.lease))
	})
}

// forgot reports whether a place has lost anything ever.
func (o *oracle) forgot(p *place) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.forgets, func(f forgetting) bool { return f.place == nil || f.place == p })
}

// excludes reports whether two leases of a place must not be valid at once.
func excludes(a, b *hold) bool {
	return a.place.kind != permits && !same(a.owner, b.owner) && (!a.reads || !b.reads)
}

func same(a, b holdfast.Owner) bool { return a == b && a != (holdfast.Owner{}) }

// kept says until when nobody else may have a lock, whatever becomes of its holder.
type kept struct {
	by    *hold
	until time.Time
}

// isKept reports whether the server may have a grant because of that.
func (o *oracle) isKept(at *place, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.kept[at], func(k kept) bool {
		return (k.by.id() == id || scripts.Nobody(k.by.id()) == id) && time.Now().Before(k.by.seen.Add(k.by.least))
	})
}

// keep notes that. It leaves a little for the rates of clocks, and for what happens between two instants.
func (o *oracle) keep(h *hold, until time.Time) {
	over := func(k kept) bool { return time.Since(k.by.seen) > k.by.least }
	o.kept[h.place] = append(slices.DeleteFunc(o.kept[h.place], over), kept{h, until.Add(-h.least/50 - 3*time.Millisecond)})
}

// leasts checks that nobody may still be kept out (A10).
func (o *oracle) leasts(h *hold) {
	for _, k := range o.kept[h.place] {
		forgotten := slices.ContainsFunc(o.forgets, func(f forgetting) bool {
			return (f.place == nil || f.place == h.place) && !f.end.Before(k.by.first)
		})
		if time.Now().Before(k.until) && k.by.id() != h.id() && !same(k.by.owner, h.owner) && !forgotten {
			o.violation("A10: %s has %s, but %s has kept it for %v more (%s, %s)",
				h.who, h.place.name, k.by.who, time.Until(k.until), k.by.id(), h.id())
		}
	}
	if h.least > 0 {
		o.keep(h, h.called.Add(h.least))
	}
}

// granted is told of every lease at the instant at which it is returned.
func (o *oracle) granted(h *hold) {
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
		part.place, part.member, part.late = member, i+1, true // who waits for the other has this one already
		h.parts = append(h.parts, &part)
		o.holder(&part)
	}
}

// holder checks a new holder of a place against the others (A1, A3, A8).
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
		o.violation("A3: %d permits of %s are held, there are %d", valid+1, h.place.name, permitCount)
	}
	o.letIn(h)
	o.inTurn(h)
	o.leasts(h)
	o.holds[h.place] = append(o.holds[h.place], h)
	o.token(h)
	o.looks(h)
}

// turn is how a grant was used by one local holder after another.
type turn struct {
	began time.Time // when the first was seen
	late  bool      // that may have been later
	count int
}

// inTurn checks the bounds of passing a grant on inside a process (A8).
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
	bounds, passed := o.w.plan.bounds(), time.Since(t.began)
	switch end := h.lease.ExpiresAt(); {
	case h.place.kind == fairLock || h.place.kind == permits || h.fixed || h.own:
		o.violation("A8: %s has %s of %s, as somebody else had", h.who, h.id(), h.place.name)
	case t.count > bounds.Max:
		o.violation("A8: %s is the %d. holder of %s in a turn of %d", h.who, t.count, h.place.name, bounds.Max)
	case h.late || t.late:
	case passed >= bounds.For:
		o.violation("A8: %s was given %s %v after the turn began, which may last %v", h.who, h.place.name, passed, bounds.For)
	case !end.IsZero() && time.Until(end) <= o.w.plan.lease/3:
		o.violation("A8: %s was given %s with %v left of %v", h.who, h.place.name, time.Until(end), o.w.plan.lease)
	}
}

func (o *oracle) anyExcused(p *place) bool { return slices.ContainsFunc(o.holds[p], o.excused) }

// token checks a fencing token against those that were known when it was asked for (A1).
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
			o.violation("A1: %s has token %d of %s, as somebody else had", h.who, token, h.place.name)
		case t.token > token && t.at.Before(h.called):
			o.violation("A1: %s has token %d of %s, but %d was given out before it asked", h.who, token, h.place.name, t.token)
		}
	}
	h.place.tokens = append(h.place.tokens, tokenGiven{token, h.owner, time.Now()})
}

// look is what a holder does now and then.
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

// looks: a holder uses the resource if its lease is valid (A2), a valid lease is one that the server knows (A4), and one that the
// watchdog renews is not lost without a cause (A3). A lease that was seen to be over is never valid again.
func (o *oracle) looks(h *hold) bool {
	switch valid := h.lease.Valid(); {
	case h.p.isDead():
		return false
	case !valid:
		o.keeps(h)
		if !h.over && !h.leaving && !h.fixed && !h.ends && !h.p.over() && !o.caused(h) {
			o.violation("A3: %s has lost %s, and nothing was wrong", h.who, h.place.name)
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
			o.violation("A2: %s holds %s with token %d, but the register has seen %d", h.who, h.place.name, token, h.place.register)
		}
		h.place.register = max(h.place.register, token)
	}
	if !h.place.known(h.id()) && !o.excused(h) {
		o.violation("A4: %s's lease of %s is valid, but the server does not know %s", h.who, h.place.name, h.id())
	}
	return true
}

// leaves says that a holder begins to give back.
func (o *oracle) leaves(h *hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, part := range append(slices.Clone(h.parts), h) {
		part.leaving = true
	}
}
