package sim

import "slices"

// What nobody owns is counted (A3 for semaphores and latches).

// gaveBack says that a lease is over. err is what its holder was told.
func (o *oracle) gaveBack(h *hold, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, part := range append(slices.Clone(h.parts), h) {
		part.ended = true
		if err == nil && !part.late && part.least > 0 {
			o.keep(part, part.seen.Add(part.least))
		}
	}
}

// took says that permits of a semaphore were acquired.
func (o *oracle) took(p *place, number int) {
	forgot := o.forgot(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.grants++
	o.w.counted[p.kind]++
	if p.taken += number; p.taken > permitCount && !forgot {
		o.violation("A3: %d permits of %s are taken, there are %d", p.taken, p.name, permitCount)
	}
}

// gave says that some are being given back.
func (o *oracle) gave(p *place, number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.taken -= number
}

// vague says that nobody knows of permits or counts.
func (o *oracle) vague(p *place, number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.vague += number
}

// counts says that a latch is being counted down.
func (o *oracle) counts(p *place) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.counted++
}

// waited says that somebody has seen the latch at zero.
func (o *oracle) waited(p *place, who string) {
	forgot := o.forgot(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.grants++
	o.w.counted[p.kind]++
	if all := o.w.plan.processes * o.w.plan.users; p.counted < all && !forgot {
		o.violation("A3: %s has seen %s at zero after %d counts of %d", who, p.name, p.counted, all)
	}
}
