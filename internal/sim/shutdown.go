package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/actors/rpc"
)

// close ends a process by Close, and checks that Close returns soon when all is well (A9).
func (w *world) close(p *process) {
	calm := w.untroubled(nil, time.Now().Add(-2*rpc.Window(w.plan.lease))) // no call with an unknown outcome is in flight
	w.troubles(nil, time.Now().Add(soon))
	known := w.troubleCount()
	p.set(func() { p.closed = true })
	w.closings.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*w.plan.lease)
		defer cancel()
		began := time.Now()
		err := p.rt.Close(ctx)
		if took := time.Since(began); took > soon && calm && w.troubleCount() == known {
			w.oracle.wrong("A9: Close of %s took %v", p.name, took)
		}
		w.history.add(p.name, "closed: %s", class(err))
		p.set(func() { p.gone, p.left = err == nil, err })
		w.remnants()
	})
}

// shutDown ends a process by Shutdown, which gives its holders the time `within` to release.
func (w *world) shutDown(p *process, within time.Duration) {
	p.set(func() { p.drains = time.Now() })
	ctx, cancel := context.WithCancel(context.Background())
	w.at(within, func() {
		w.troubles(nil, time.Now().Add(soon))
		p.set(func() { p.closed = true })
		cancel()
	})
	w.closings.Go(func() {
		defer cancel()
		err := p.rt.Shutdown(ctx)
		w.history.add(p.name, "shut down: %s", class(err))
		p.set(func() { p.closed, p.gone, p.left = true, err == nil, err })
		w.remnants()
	})
}

// draining returns the time at which a process began to shut down, or zero if it has not.
func (p *process) draining() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drains
}

// ending reports whether a process is over, or will be once its holders have released.
func (p *process) ending() bool { return p.over() || !p.draining().IsZero() }

// letIn checks that a process which is shutting down grants no new lease (A9).
func (o *oracle) letIn(h *hold) {
	since := h.p.draining()
	again := slices.ContainsFunc(o.holds[h.place], func(x *hold) bool { return x.p == h.p && same(x.owner, h.owner) })
	if since.IsZero() || again {
		return
	}
	switch told := !h.late && !h.p.pausedSince(since); {
	case h.called.After(since):
		o.violation("A9: %s got %s, which it requested %v after the shutdown began", h.who, h.place.name, h.called.Sub(since))
	case told && time.Since(since) > time.Millisecond:
		o.violation("A9: %s waited, and got %s %v after the shutdown began", h.who, h.place.name, time.Since(since))
	}
}

// keeps checks that a Shutdown ends no lease while the holders still have time to release (A9).
func (o *oracle) keeps(h *hold) {
	if h.leaving || h.over || h.p.over() || h.p.draining().IsZero() {
		return
	}
	if errors.Is(h.lease.Err(), holdfast.ErrClosed) {
		o.violation("A9: the shutdown has ended %s's lease of %s", h.who, h.place.name)
	}
}

func (p *process) pausedSince(instant time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused.After(instant)
}

// tooLate asks for a lock in a process that is shutting down.
func (u *user) tooLate() {
	at := u.w.places[u.r.IntN(len(u.w.places))]
	if !at.leased() || u.p.over() {
		return
	}
	lease, err := at.of(u.p.rt, false).TryAcquire(context.WithValue(u.p.ctx, userKey{}, u))
	u.w.keep(lease)
	u.told("take, too late,", at, err)
	if !u.p.isDead() && !errors.Is(err, holdfast.ErrClosed) {
		u.w.oracle.wrong("A9: %s is not refused %s by a shutdown: %v", u.name, at.name, err)
	}
}
