package sim

import "time"

// wait is one user's wait for a place.
type wait struct {
	p     *process
	who   string
	place *place
	since time.Time
	vague bool // the wait may have been granted already, without the user knowing
}

// patienceOf bounds how long anybody waits for a free lock whose release was announced (A6). The bound covers two pauses. After its turn, a process
// waits up to 125 ms before it tries again. A waiter of a spin lock pauses for up to 128 ms between two tries.
//
// A mere listener is a subscriber that never acquires. In a world with a mere listener, the bound is aloneMax after the first second: by then, the
// processes know that the listener never acquires, and it does not lengthen their pauses any more. In a world with a crowd, the bound is crowdMax.
func (o *oracle) patienceOf(k kind) time.Duration {
	patience := 250 * time.Millisecond
	switch {
	case o.w.plan.listening == crowd:
		patience = crowdMax
	case o.w.plan.listening != nobody && time.Since(o.w.history.start) > time.Second:
		patience = aloneMax
	}
	if k == spinLock {
		patience += 100 * time.Millisecond
	}
	return patience
}

// waits records that somebody begins to wait. It returns the function `over`, which records the end of the wait.
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

// served checks that a waiter has not waited too long for a place that is free (A6).
func (o *oracle) served(w *wait) {
	if free := o.w.free(w.place); !free.IsZero() {
		o.inTime(w, free, "which is free")
	}
}

// inTime checks that a waiter has not waited too long since a place became available to it (A6).
func (o *oracle) inTime(w *wait, since time.Time, why string) {
	if w.vague || w.p.ending() {
		return
	}
	since = o.w.calmSince(o.known(w.p, w.place, since))
	if w.since.After(since) {
		since = w.since
	}
	if waited := time.Since(since); waited > o.patienceOf(w.place.kind) {
		o.wrong("A6: %s has waited %v for %s, %s", w.who, waited, w.place.name, why)
	}
}

// known returns the time from which a process can know that a place is available. The place became available at the time `free`, but perhaps only
// because the server forgot the grant of a holder in this process. The holder notices the loss at its next renewal or, if its lease is not renewed,
// when the lease ends. Until then, the other users in the process wait for that holder.
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

// orphan is a grant that the server has and no user holds.
type orphan struct {
	place *place
	id    string
}

// orphans looks for grants that nobody holds, waits for or is releasing (A5).
func (o *oracle) orphans(waiting []*wait) {
	now := time.Now()
	seen := map[orphan]time.Time{}
	for _, at := range o.w.places {
		if at.kind == multiLock || at.kind == permits || !at.leased() {
			continue
		}
		for _, id := range at.grants() {
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
			o.demanded(waiting, at, id, since)
			if bound := o.w.plan.lease/3 + soon; now.Sub(since) > bound && o.w.untroubled(p, now.Add(-bound)) {
				o.wrong("A5: nobody has wanted the grant %s of %s for %v", id, at.name, now.Sub(since))
				seen[it] = now
			}
		}
	}
	o.lost = seen
}

// demanded checks that nobody waits for long while a lock only lingers (A6).
func (o *oracle) demanded(waiting []*wait, at *place, id string, since time.Time) {
	if o.w.plan.linger == 0 {
		return
	}
	for _, w := range waiting {
		if w.place == at {
			o.inTime(w, since, "which only lingers: "+id)
		}
	}
}

// accounted reports whether somebody holds a grant, is releasing it, or is about to be notified of it.
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

// observe checks all leases, and all users that wait, again and again until the channel `done` is closed.
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
	o.orphans(waiting)
	for _, p := range o.w.processes {
		o.compareHeld(p)
	}
}
