package sim

import "slices"

// Permits and counts have no owner, so the oracle checks only their numbers (A3 for semaphores and latches).

// gaveBack records the end of a lease. err is what its holder got from Release. So far, the oracle has assumed that the at-least time of the lease
// began when the holder called Acquire. After a successful release, the oracle assumes that it began when Acquire returned, so it ends later. The
// exception is a holder that may have learned of the grant late: for its lease, nothing changes.
func (o *oracle) gaveBack(h *hold, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, part := range append(slices.Clone(h.parts), h) {
		part.ended = true
		if err == nil && !part.late && part.least > 0 && o.w.untroubled(part.p, part.called) {
			o.keep(part, part.seen.Add(part.least))
		}
	}
}

// took records that permits of a semaphore were acquired.
func (o *oracle) took(p *place, number int) {
	forgot := o.forgot(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.grants++
	o.w.counted[p.kind]++
	if p.taken += number; p.taken > permitCount && !forgot {
		o.violation("A3: %d permits of %s are taken, but there are only %d", p.taken, p.name, permitCount)
	}
}

// gave records that permits are being released.
func (o *oracle) gave(p *place, number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.taken -= number
}

// vague records permits or counts whose outcome is unknown.
func (o *oracle) vague(p *place, number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.vague += number
}

// counts records that a latch is being counted down.
func (o *oracle) counts(p *place) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.counted++
}

// waited checks that a latch was at zero when a waiter was released.
func (o *oracle) waited(p *place, who string) {
	forgot := o.forgot(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.grants++
	o.w.counted[p.kind]++
	if all := o.w.plan.processes * o.w.plan.users; p.counted < all && !forgot {
		o.violation("A3: %s has seen %s at zero after only %d of %d counts", who, p.name, p.counted, all)
	}
}
