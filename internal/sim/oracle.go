package sim

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// oracle knows everything at every instant, and says what must never be. An instant of the bubble's time is an instant for everybody:
// two leases overlap if and only if both are valid when the later one is granted.
type oracle struct {
	w *world

	mu         sync.Mutex
	holds      map[*place][]*hold
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
	lease  *holdfast.Lease
	owner  holdfast.Owner // zero: one of its own
	reads  bool
	fixed  bool
	called time.Time // when it was asked for
	ended  bool      // its holder has given it back
}

// forgetting is the server's loss of what somebody relies on, at some instant from begin to end.
type forgetting struct {
	what       string
	place      *place // nil: all
	begin, end time.Time
}

func newOracle(w *world) *oracle { return &oracle{w: w, holds: map[*place][]*hold{}} }

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
// cannot have found out, or there is none.
func (o *oracle) excused(h *hold) bool {
	now := time.Now()
	return slices.ContainsFunc(o.forgets, func(f forgetting) bool {
		if f.place != nil && f.place != h.place {
			return false
		}
		if h.fixed {
			return !f.end.Before(h.called)
		}
		return now.Sub(f.end) <= o.w.plan.lease // its grant may be older than the lease is
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

// granted is told of every lease at the instant at which it is returned (A1, A3).
func (o *oracle) granted(h *hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.grants++
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
			o.violation("A3: %s and %s both hold %s (%s, %s)", other.who, h.who, h.place.name, other.lease.ID(), h.lease.ID())
		}
	}
	if h.place.kind == permits && valid >= permitCount && !o.excused(h) && !o.anyExcused(h.place) {
		o.violation("A3: %d permits of %s are held, there are %d", valid+1, h.place.name, permitCount)
	}
	o.holds[h.place] = append(o.holds[h.place], h)
	o.token(h)
	o.looks(h)
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

// look is what a holder does now and then: it uses the resource if its lease is valid (A2), and a valid lease is one that the server
// knows (A4).
func (o *oracle) look(h *hold) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.looks(h)
}

func (o *oracle) looks(h *hold) bool {
	if !h.lease.Valid() || h.p.isDead() {
		return false
	}
	if h.place.kind == fencedLock {
		token := h.lease.Token()
		if token < h.place.register && !o.excused(h) {
			o.violation("A2: %s holds %s with token %d, but the register has seen %d", h.who, h.place.name, token, h.place.register)
		}
		h.place.register = max(h.place.register, token)
	}
	if !h.place.known(h.lease.ID()) && !o.excused(h) {
		o.violation("A4: %s's lease of %s is valid, but the server does not know %s", h.who, h.place.name, h.lease.ID())
	}
	return true
}
