package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
)

// user is a goroutine of a process that acquires and releases. It pauses before each step.
type user struct {
	w       *world
	p       *process
	name    string
	r       *rand.Rand
	counted map[*place]bool

	messenger *messenger
}

func (u *user) run() {
	for range u.w.plan.steps {
		u.sleep(between(u.r, 100*time.Microsecond, u.w.plan.lease/4))
		if u.p.ending() {
			u.tooLate()
			return
		}
		p := u.w.places[u.r.IntN(len(u.w.places))]
		switch p.kind {
		case semaphore:
			u.useSemaphore(p)
		case latch:
			u.useLatch(p)
		default:
			u.useLease(p)
		}
	}
}

// sleep makes the user pause. If its process is paused meanwhile, the user sleeps until that pause is over as well.
func (u *user) sleep(d time.Duration) {
	u.w.pause(d)
	u.p.awake(dice(u.r.Uint64()))
}

func (u *user) say(format string, args ...any) { u.w.history.add(u.name, format, args...) }

// told records the outcome of a step, unless the process is dead: then nobody sees the outcome.
func (u *user) told(what string, p *place, err error) {
	if u.p.isDead() {
		return
	}
	u.say("%s %s: %s", what, p.name, class(err))
	if errors.Is(err, holdfast.ErrInvalid) || errors.Is(err, holdfast.ErrForeignKey) || errors.Is(err, holdfast.ErrUpgrade) {
		u.w.oracle.wrong("%s %s: %v", what, p.name, err)
	}
}

// class returns what an error is about, without the parts that differ between runs.
func class(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, holdfast.ErrClosed):
		return "closed"
	case errors.Is(err, holdfast.ErrLeaseLost):
		return "lost"
	case errors.Is(err, holdfast.ErrNotHeld):
		return "not held"
	case errors.Is(err, holdfast.ErrNotAcquired) && errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, holdfast.ErrNotAcquired) && errors.Is(err, context.DeadlineExceeded):
		return "too late"
	case errors.Is(err, holdfast.ErrNotAcquired):
		return "busy"
	}
	return "failed"
}

// waiting returns the context of a wait: it has a deadline or is cancelled.
func (u *user) waiting() (context.Context, context.CancelFunc) {
	d := between(u.r, time.Millisecond, 4*u.w.plan.lease)
	if u.r.IntN(3) > 0 {
		return u.p.within(d)
	}
	if u.r.IntN(3) == 0 {
		d = between(u.r, 0, 6*tripSpan) // about when the grant arrives
	}
	return u.p.cancelled(d)
}

// useLease acquires a lock or a permit, keeps it for a while, and releases it.
func (u *user) useLease(p *place) {
	h := &hold{p: u.p, who: u.name, place: p, called: time.Now(), first: time.Now()}
	h.reads = p.kind == readWrite && u.r.IntN(2) == 0
	var options []holdfast.AcquireOption
	if u.r.IntN(3) == 0 {
		h.fixed = true
		options = append(options, holdfast.WithLease(between(u.r, 50*time.Millisecond, 2*u.w.plan.lease)))
	} else if p.bounds(h.reads) && u.r.IntN(4) == 0 {
		h.own, h.least = true, between(u.r, 50*time.Millisecond, u.w.plan.lease*3/2)
		options = append(options, holdfast.WithAtLeast(h.least))
		if u.r.IntN(3) == 0 {
			h.ends = true
			options = append(options, holdfast.WithAtMost(between(u.r, h.least, 2*u.w.plan.lease)))
		}
	}
	if p.kind != permits && u.r.IntN(3) == 0 {
		h.owner = u.p.rt.NewOwner()
		options = append(options, holdfast.WithOwner(h.owner))
	}
	err := u.take(h, options)
	if err != nil || u.p.isDead() {
		return
	}
	u.w.oracle.granted(h)
	u.sleep(between(u.r, 0, 20*time.Microsecond)) // so that the consequences of the grant happen first
	u.keep(h, options)
	if !u.p.isDead() {
		u.giveBack(h)
	}
}

// take acquires a lease in one of the possible ways.
func (u *user) take(h *hold, options []holdfast.AcquireOption) (err error) {
	what := fmt.Sprintf("take reads=%v fixed=%v least=%v", h.reads, h.fixed, h.least)
	ctx, cancel := u.waiting()
	defer cancel()
	handle := h.place.of(u.p.rt, h.reads)
	var got *holdfast.Lease
	switch way := u.r.IntN(5); {
	case way == 0:
		got, err = handle.TryAcquire(context.WithValue(u.p.ctx, userKey{}, u), options...)
		what += " try"
	case way == 1 && h.place.kind != permits && h.place.kind != multiLock && !h.own:
		// Leases with an at-least time are left out: if such an acquire is cancelled after the grant, the oracle does not know why the lock stays taken.
		h.late = true
		got, err = u.async(ctx, h, options)
		what += " async"
	case way == 2 && h.place.kind != permits && h.place.kind != multiLock && !h.own: // actor messages have no at-least time
		h.lease, err = u.ask(h)
		what += " by message"
	default:
		over := u.w.oracle.waits(u.p, u.name, h.place, false)
		got, err = handle.Acquire(context.WithValue(ctx, userKey{}, u), options...)
		over()
		if err != nil && h.least > 0 {
			u.w.oracle.mayStay(h)
		}
	}
	if got != nil {
		h.lease = got
		u.w.keep(got)
	}
	if err == nil {
		what += fmt.Sprintf(" token=%d", h.lease.Token())
	}
	u.told(what, h.place, err)
	return err
}

// async acquires by AcquireAsync. In one of three cases it cancels the acquire after a while.
func (u *user) async(ctx context.Context, h *hold, options []holdfast.AcquireOption) (*holdfast.Lease, error) {
	defer u.w.oracle.waits(u.p, u.name, h.place, true)()
	pending := h.place.lock(u.p.rt, h.reads).AcquireAsync(ctx, options...)
	if u.r.IntN(3) == 0 {
		u.sleep(between(u.r, 0, u.w.plan.lease))
		pending.Cancel()
	}
	return pending.Lease()
}

// keep holds a lease for a while, and checks it now and then.
func (u *user) keep(h *hold, options []holdfast.AcquireOption) {
	for range u.r.IntN(5) {
		u.sleep(between(u.r, 10*time.Microsecond, u.w.plan.lease*2/3))
		if u.p.isDead() || !u.w.oracle.look(h) {
			return
		}
		switch u.r.IntN(12) {
		case 0:
			if h.fixed {
				err := h.lease.Extend(u.p.ctx, between(u.r, 50*time.Millisecond, 2*u.w.plan.lease))
				u.told("extend", h.place, err)
			}
		case 1:
			if h.owner != (holdfast.Owner{}) {
				u.reenter(h, options)
			}
		case 2:
			if h.place.kind != permits && h.place.kind != multiLock {
				u.force(h)
			}
		}
	}
	if u.r.IntN(8) == 0 && (h.fixed || h.ends) { // this user does not release in time
		select {
		case <-h.lease.Done():
			u.p.awake(dice(u.r.Uint64()))
			u.say("%s ended: %s", h.place.name, class(h.lease.Err()))
		case <-u.p.ctx.Done():
		}
		u.sleep(between(u.r, time.Microsecond, time.Millisecond))
	}
}

// reenter acquires the lock again as the same owner and releases it at once.
func (u *user) reenter(h *hold, options []holdfast.AcquireOption) {
	again := hold{p: h.p, who: h.who, place: h.place, owner: h.owner, reads: h.reads, fixed: h.fixed, own: h.own, ends: h.ends, least: h.least, called: time.Now(), first: h.first}
	ctx, cancel := u.waiting()
	defer cancel()
	lease, err := h.place.of(u.p.rt, h.reads).Acquire(context.WithValue(ctx, userKey{}, u), options...)
	u.w.keep(lease)
	u.told("re-enter", h.place, err)
	if err != nil && again.least > 0 {
		again.lease = h.lease
		u.w.oracle.mayKeep(&again)
	}
	if err != nil || u.p.isDead() {
		return
	}
	again.lease = lease
	u.w.oracle.granted(&again)
	u.sleep(between(u.r, 10*time.Microsecond, u.w.plan.lease/3))
	if !u.p.isDead() {
		u.w.oracle.look(&again)
		u.giveBack(&again)
	}
}

// force frees the lock, no matter who holds it.
func (u *user) force(h *hold) {
	const most = 2 * time.Second // the call may be in flight for this long
	over := u.w.oracle.loses("the holder of "+h.place.name, h.place)
	ctx, cancel := u.p.within(between(u.r, time.Millisecond, u.w.plan.lease))
	defer cancel()
	held, err := h.place.lock(u.p.rt, h.reads).ForceRelease(ctx)
	u.told(fmt.Sprintf("force held=%v", held), h.place, err)
	if err != nil {
		over(most + 3*u.w.plan.lease)
		return
	}
	over(0)
}

func (u *user) giveBack(h *hold) {
	u.sleep(between(u.r, 0, 20*time.Microsecond)) // so that the consequences of the previous step happen first
	u.w.oracle.look(h)
	u.w.oracle.leaves(h)
	ctx, cancel := context.WithCancel(u.p.ctx)
	defer cancel()
	if u.r.IntN(6) == 0 {
		cancel()
	}
	u.say("give back %s", h.place.name)
	err := h.lease.Release(ctx)
	if h.lease.Valid() {
		u.w.oracle.wrong("A3: %s's lease of %s is valid after its release", u.name, h.place.name)
	}
	u.w.oracle.gaveBack(h, err)
	u.told("given back", h.place, err)
	if u.r.IntN(8) == 0 && !u.p.isDead() {
		u.sleep(between(u.r, time.Microsecond, time.Millisecond))
		again := h.lease.Release(u.p.ctx)
		if again == nil && !u.p.ending() {
			u.w.oracle.wrong("H48: %s could release %s twice", u.name, h.place.name)
		}
	}
}

// useSemaphore acquires permits of a semaphore, which have no owner, and releases them.
func (u *user) useSemaphore(p *place) {
	s := u.p.rt.Semaphore(p.name)
	ctx, cancel := u.waiting()
	defer cancel()
	number, err := 1+u.r.IntN(4)/3, error(nil)
	if u.r.IntN(3) == 0 {
		err = s.TryAcquire(ctx, number)
	} else {
		over := u.w.oracle.waits(u.p, u.name, p, false)
		err = s.Acquire(ctx, number)
		over()
	}
	u.told(fmt.Sprint("take ", number), p, err)
	if u.p.isDead() || err != nil {
		if c := class(err); u.p.ending() || c == "failed" {
			u.w.oracle.vague(p, number)
		}
		return
	}
	u.w.oracle.took(p, number)
	u.sleep(between(u.r, 10*time.Microsecond, u.w.plan.lease))
	if u.p.over() {
		u.w.oracle.vague(p, number)
		return
	}
	u.w.oracle.gave(p, number)
	err = s.Release(u.p.ctx, number)
	if err != nil || u.p.isDead() {
		u.w.oracle.vague(p, number)
	}
	u.told("give", p, err)
}

// useLatch counts a latch down, at most once for each user and latch, or waits for it.
func (u *user) useLatch(p *place) {
	l := u.p.rt.CountDownLatch(p.name)
	if !u.counted[p] && u.r.IntN(2) == 0 {
		u.counted[p] = true
		u.w.oracle.counts(p)
		err := l.CountDown(u.p.ctx)
		u.told("count down", p, err)
		if err != nil || u.p.isDead() {
			u.w.oracle.vague(p, 1)
		}
		return
	}
	ctx, cancel := u.waiting()
	defer cancel()
	over := u.w.oracle.waits(u.p, u.name, p, false)
	err := l.Wait(ctx)
	over()
	if err == nil && !u.p.isDead() {
		u.w.oracle.waited(p, u.name)
	}
	u.told("wait", p, err)
}
