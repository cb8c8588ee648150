package sim

import "time"

// wait is somebody's waiting for a place.
type wait struct {
	p     *process
	who   string
	place *place
	since time.Time
	vague bool // it may have been granted, and the user does not know yet
}

// patienceOf is how long anybody waits for what is free and was told to be (A6): a process that has just had its turn stays out for up to
// 125 ms, and who spins pauses for up to 128 ms.
//
// A mere listener does not make that longer: after the first second nobody leaves a free lock alone because of it.
func (o *oracle) patienceOf(k kind) time.Duration {
	patience := 250 * time.Millisecond
	if o.w.plan.listening != nobody && time.Since(o.w.history.start) > time.Second {
		patience = aloneMax
	}
	if k == spinLock {
		patience += 100 * time.Millisecond
	}
	return patience
}

// waits is told when somebody begins to wait; the returned func when he has stopped.
func (o *oracle) waits(p *process, who string, at *place, vague bool) (over func()) {
	w := &wait{p, who, at, time.Now(), vague || at.kind == multiLock}
	o.mu.Lock()
	o.waiting = append(o.waiting, w)
	o.mu.Unlock()
	return func() {
		o.served(w)
		o.mu.Lock()
		defer o.mu.Unlock()
		for i := range o.waiting {
			if o.waiting[i] == w {
				o.waiting = append(o.waiting[:i], o.waiting[i+1:]...)
				return
			}
		}
	}
}

// served looks whether somebody waits although nothing is in his way (A6).
func (o *oracle) served(w *wait) {
	free := o.w.free(w.place)
	if free.IsZero() || w.vague || w.p.ending() {
		return
	}
	free = o.w.calmSince(o.known(w.p, w.place, free))
	if w.since.After(free) {
		free = w.since
	}
	if waited := time.Since(free); waited > o.patienceOf(w.place.kind) {
		o.wrong("A6: %s has waited %v for %s, which is free", w.who, waited, w.place.name)
	}
}

// known is when a process knows that a place is free: who holds what the server has forgotten finds out when he renews next, or only at
// the end of a lease that is not renewed, and others of his process wait for him.
func (o *oracle) known(p *process, at *place, free time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if held := at.valid[p]; held.After(free) {
		free = held
	}
	for _, f := range o.forgets {
		if told := f.end.Add(o.w.toldWithin()); (f.place == nil || f.place == at) && told.After(free) {
			free = told
		}
	}
	return free
}

// orphan is a grant that the server has and nobody here.
type orphan struct {
	place *place
	id    string
}

// orphans looks for grants that nobody holds or waits for, and that nobody gives back (A5).
func (o *oracle) orphans() {
	now := time.Now()
	seen := map[orphan]time.Time{}
	for _, at := range o.w.places {
		if at.kind == multiLock || at.kind == permits || !at.leased() {
			continue
		}
		for _, id := range at.fields() {
			p := o.w.processOf(id)
			if p == nil || p.over() || o.accounted(p, at, id) || o.isKept(at, id) {
				continue
			}
			it := orphan{at, id}
			since, known := o.lost[it]
			if !known {
				since = now
			}
			seen[it] = since
			if bound := o.w.plan.lease/3 + soon; now.Sub(since) > bound && o.w.untroubled(p, now.Add(-bound)) {
				o.wrong("A5: nobody wants %s of %s for %v", id, at.name, now.Sub(since))
				seen[it] = now
			}
		}
	}
	o.lost = seen
}

// accounted reports whether somebody holds a grant, or gives it back, or is about to be told that he has it.
func (o *oracle) accounted(p *process, at *place, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.waiting {
		if w.p == p && w.vague && (w.place == at || w.place.kind == multiLock) {
			return true
		}
	}
	for _, h := range o.holds[at] {
		if !h.ended && h.id() == id {
			return true
		}
	}
	return false
}

// observe looks at everything that is held and waited for, again and again.
func (w *world) observe(done <-chan struct{}) {
	r := w.dice.of('o').stream()
	for {
		pause := time.NewTimer(time.Until(w.unique(time.Now().Add(between(r, 5*time.Millisecond, 10*time.Millisecond)))))
		select {
		case <-done:
			pause.Stop()
			return
		case <-pause.C:
			w.oracle.observe()
		}
	}
}

func (o *oracle) observe() {
	o.mu.Lock()
	for _, at := range o.w.places {
		for _, h := range o.holds[at] {
			if !h.ended {
				o.looks(h)
			}
		}
	}
	waiting := append([]*wait(nil), o.waiting...)
	o.mu.Unlock()
	for _, w := range waiting {
		o.served(w)
	}
	o.orphans()
}
