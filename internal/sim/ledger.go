package sim

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// ledger compares the reports of a process's Trace and its Stats with each other and with what users got. For example, each acquire must have
// exactly one outcome, and each lease must end exactly once.
type ledger struct {
	o *oracle
	p *process

	mu       sync.Mutex
	begun    int
	outcomes int
	granted  map[string]int // by id: the number of leases that have not ended; holders of one turn share an id
	total    int            // leases
	permits  int
	refused  int
	local    int
	released int
	lost     int

	slow      time.Duration    // Options.SlowWait
	asked     map[question]int // acquires whose slow wait may still be reported
	renewals  int
	unrenewed int
	exchanges int
	scripts   int
}

// question identifies an acquire. If a multi lock acquires one of its members repeatedly, these acquires share a question.
type question struct {
	ctx  context.Context
	name string
}

func (l *ledger) trace() *holdfast.Trace {
	return &holdfast.Trace{
		Acquiring: l.acquiring,
		Waiting:   l.waiting,
		Released:  func(r holdfast.Released) { l.end(&l.released, r.Name, r.ID) },
		Lost:      func(x holdfast.Lost) { l.end(&l.lost, x.Name, x.ID) },
		Renewed: func(r holdfast.Renewed) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if r.Err != nil {
				l.unrenewed += r.Leases
			} else {
				l.renewals += r.Leases - r.Gone
			}
		},
		Exchanged: func(x holdfast.Exchanged) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.exchanges++
			l.scripts += x.Scripts
		},
	}
}

func (l *ledger) acquiring(ctx context.Context, a holdfast.Acquiring) func(holdfast.Acquired) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	q := question{ctx, a.Name}
	l.asked[q]++
	began, unsaid, told := time.Now(), l.asked[q], false
	return func(a holdfast.Acquired) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if told {
			l.o.wrong("Trace: the outcome of an acquire of %s is reported twice", a.Name)
		}
		told = true
		l.outcome(a)
		if ctx != context.Background() && a.Waited > l.slow+slack && l.asked[q] == unsaid && l.o.w.untroubled(l.p, began) {
			l.o.wrong("Trace: a wait of %[2]v for %[1]s was not reported as slow", a.Name, a.Waited)
		}
	}
}

// slack is how late the report of a slow wait may be.
const slack = 200 * time.Millisecond

// waiting checks that the slow wait of an acquire is reported at most once, and not too soon.
func (l *ledger) waiting(ctx context.Context, w holdfast.Waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := question{ctx, w.Name}
	if l.asked[q]--; l.asked[q] < 0 {
		l.o.wrong("Trace: a slow wait for %s is reported twice, or nobody waits", w.Name)
	}
	if w.Waited < l.slow {
		l.o.wrong("Trace: a slow wait for %s is reported after %v, not %v", w.Name, w.Waited, l.slow)
	}
}

func (l *ledger) outcome(a holdfast.Acquired) {
	l.outcomes++
	if a.Local {
		l.local++
	}
	switch {
	case a.Err != nil:
		l.refused++
	case a.ID == "":
		l.permits++
	default:
		l.total++
		l.granted[a.ID]++
	}
}

// end records the end of a lease.
func (l *ledger) end(count *int, name, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*count++
	if l.granted[id]--; l.granted[id] < 0 {
		l.o.wrong("Trace: more leases of %s end than were granted (%s)", name, id)
	}
	if l.granted[id] == 0 {
		delete(l.granted, id)
	}
}

// knows checks that a lease was reported before its holder got it.
func (l *ledger) knows(place, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.granted[id] == 0 {
		l.o.wrong("Trace: %s was granted, but Trace has not reported it (%s)", place, id)
	}
}

// holding is the key under which a process's leases are counted.
type holding struct{ name, id string }

// compareHeld checks Held and the Stats of a runtime at this instant. Held must list each valid lease that nobody is releasing, and only leases
// that were granted and have not ended.
func (o *oracle) compareHeld(p *process) {
	held := map[holding]int{}
	for h := range p.rt.Held() {
		held[holding{h.Name, h.ID}]++
	}
	if p.over() {
		return // Close ends leases before it reports their ends, and nothing is held after Close
	}
	for h, wanted := range o.holding(p) {
		if held[h] < wanted {
			o.wrong("Held: %d leases of %s are valid in %s, %d are held (%s)", wanted, h.name, p.name, held[h], h.id)
		}
	}
	p.ledger.compare(p, held)
}

// holding counts the valid leases that users of a process have and are not releasing.
func (o *oracle) holding(p *process) map[holding]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	users := map[holding]int{}
	for place, holds := range o.holds {
		for _, h := range holds {
			if h.p == p && !h.leaving && !h.ended && h.lease.Valid() {
				users[holding{place.name, h.id()}]++
			}
		}
	}
	return users
}

func (l *ledger) compare(p *process, held map[holding]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := 0
	for _, n := range l.granted {
		open += n
	}
	for h, n := range held {
		if l.granted[h.id] < n {
			l.o.wrong("Held: %d leases of %s are held in %s, but Trace has reported %d (%s)", n, h.name, p.name, l.granted[h.id], h.id)
		}
	}
	if s := p.rt.Stats(); s.Held != open || s.Waiting != l.begun-l.outcomes {
		l.o.wrong("Stats: %d leases held and %d acquires waiting in %s, but Trace has reported %d and %d", s.Held, s.Waiting, p.name, open, l.begun-l.outcomes)
	}
}

// close checks that everything has ended, and that the Stats of the closed runtime say the same.
func (l *ledger) close(name string, s holdfast.Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.outcomes != l.begun:
		l.o.wrong("Trace: of %d acquires of %s, only %d have an outcome", l.begun, name, l.outcomes)
	case len(l.granted) > 0:
		l.o.wrong("Trace: leases of %s have no end: %v", name, l.granted)
	case s.Held != 0 || s.Waiting != 0 || s.Lingering != 0:
		l.o.wrong("Stats: %s is closed, but %d leases are held, %d linger and %d acquires wait", name, s.Held, s.Lingering, s.Waiting)
	}
	for what, pair := range map[string][2]int{
		"Acquired": {int(s.Acquired), l.total + l.permits}, "Refused": {int(s.Refused), l.refused}, "HandedOn": {int(s.HandedOn), l.local},
		"Released": {int(s.Released), l.released}, "Lost": {int(s.Lost), l.lost},
		"Renewals": {int(s.Renewals), l.renewals}, "RenewFailures": {int(s.RenewFailures), l.unrenewed},
		"Exchanges": {int(s.Exchanges), l.exchanges}, "Scripts": {int(s.Scripts), l.scripts},
	} {
		if pair[0] != pair[1] {
			l.o.wrong("Stats: %s of %s is %d, but Trace has reported %d", what, name, pair[0], pair[1])
		}
	}
}
