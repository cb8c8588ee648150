package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

// plan is what the seed decides about a world before it starts.
type plan struct {
	seed      uint64
	lease     time.Duration // of the watchdog
	handoff   holdfast.Handoff
	processes int
	users     int // in each process
	steps     int // of each user
	places    []kind
	faults    []fault
	every     time.Duration // mean time between faults
	listening listening     // the client that subscribes but never acquires
	linger    time.Duration // Options.Linger
}

// kind is a kind of lock or counter.
type kind string

const (
	plainLock  kind = "lock"
	fairLock   kind = "fair"
	fencedLock kind = "fenced"
	spinLock   kind = "spin"
	readWrite  kind = "rw"
	permits    kind = "permits"
	semaphore  kind = "semaphore"
	latch      kind = "latch"
	multiLock  kind = "multi"
)

var kinds = []kind{plainLock, fairLock, fencedLock, spinLock, readWrite, permits, semaphore, latch, multiLock}

// newPlan draws a plan. Consecutive seeds go through the kinds.
func newPlan(seed uint64, m *Mutant, r *rand.Rand) plan {
	kinds := m.among()
	p := plan{
		seed:      seed,
		lease:     []time.Duration{400 * time.Millisecond, time.Second, 3 * time.Second}[r.IntN(3)],
		processes: 2 + r.IntN(3),
		users:     1 + r.IntN(3),
		steps:     3 + r.IntN(5),
		places:    []kind{kinds[seed%uint64(len(kinds))]},
	}
	if r.IntN(4) == 0 {
		p.places = append(p.places, kinds[r.IntN(len(kinds))])
	}
	switch r.IntN(4) {
	case 0:
		p.handoff = holdfast.Handoff{Max: 1}
	case 1:
		p.handoff = holdfast.Handoff{Max: 1 + r.IntN(5), For: p.lease / 4}
	}
	switch r.IntN(8) {
	case 0: // no fault
	case 1, 2, 3: // one kind of fault
		p.every = between(r, p.lease/2, 2*p.lease)
		p.faults = append(p.faults, faults[r.IntN(len(faults))])
	default:
		p.every = between(r, p.lease/8, p.lease)
		for _, f := range faults {
			if r.IntN(2) == 0 {
				p.faults = append(p.faults, f)
			}
		}
	}
	if m.fault != "" { // only that fault, but often, and more activity
		p.every = between(r, p.lease/4, p.lease)
		p.steps += 5
		p.faults = slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return f.name != m.fault })
	}
	return p
}

// newLinger draws from its own dice, so that the other draws of a world do not depend on it.
func (p *plan) newLinger(d dice) time.Duration {
	return []time.Duration{0, 0, p.lease / 4, p.lease / 20}[mix(uint64(d))%4]
}

func (p *plan) bounds() holdfast.Handoff {
	if p.handoff == (holdfast.Handoff{}) {
		return holdfast.Handoff{Max: 10_000, For: min(10*time.Millisecond, p.lease/3)} // the defaults
	}
	return holdfast.Handoff{Max: p.handoff.Max, For: cmp.Or(p.handoff.For, min(10*time.Millisecond, p.lease/3))}
}

func (p plan) String() string {
	names := []string{}
	for _, f := range p.faults {
		names = append(names, f.name)
	}
	return fmt.Sprintf("seed %d: %v, %d processes x %d users x %d steps, lease %v, hand-off %+v, every %v one of %v, listening: %q, linger %v",
		p.seed, p.places, p.processes, p.users, p.steps, p.lease, p.handoff, p.every, names, p.listening, p.linger)
}
