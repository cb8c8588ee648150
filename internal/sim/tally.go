package sim

// What nobody owns is counted (A3 for semaphores and latches).

// gaveBack says that a lease is over.
func (o *oracle) gaveBack(h *hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h.ended = true
}

// took says that a permit of a semaphore was acquired.
func (o *oracle) took(p *place) {
	forgot := o.forgot(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.grants++
	if p.taken++; p.taken > permitCount && !forgot {
		o.violation("A3: %d permits of %s are taken, there are %d", p.taken, p.name, permitCount)
	}
}

// gave says that one is being given back.
func (o *oracle) gave(p *place) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.taken--
}

// vague says that nobody knows of a permit or a count.
func (o *oracle) vague(p *place) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.vague++
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
	if all := o.w.plan.processes * o.w.plan.users; p.counted < all && !forgot {
		o.violation("A3: %s has seen %s at zero after %d counts of %d", who, p.name, p.counted, all)
	}
}
