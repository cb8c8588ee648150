package lock

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/protocol"
)

// user acquires and releases one lease after another.
type user struct {
	p     *proc
	owner protocol.Owner
}

func newUser(p *proc) *user {
	u := &user{p: p}
	if p.w.kinds[0].Owned && p.w.Chance(30) { // some share an owner
		u.owner = protocol.NewOwner(p.Name, p.w.Random.Uint64N(3))
	}
	return u
}

func (u *user) request(do wait.Operation, then func(error)) *wait.Request {
	r := &wait.Request{Do: do, Address: u.p.w.address()}
	u.p.waiting[r] = then
	return r
}

// address returns the address of the lock, with a random one of the world's kinds.
func (w *world) address() *lease.Address {
	kind := w.kinds[0]
	if len(w.kinds) > 1 {
		kind = w.kinds[w.Random.IntN(len(w.kinds))]
	}
	return &lease.Address{Kind: kind, Name: "orders", Raw: "orders"}
}

// send posts a request, which arrives up to 0.1 ms later.
func (u *user) send(r *wait.Request) { u.p.Post(u.p.w.UpTo(100*time.Microsecond), r) }

// next is the user's next operation, unless the test is about to end.
func (u *user) next() {
	w := u.p.w
	switch {
	case w.Calm || u.p.stopped:
	case w.Now > machinetest.Use/2 && w.Chance(w.forced):
		u.p.forceRelease(w.address())
		u.think()
	case w.Chance(1):
		u.p.sweep()
		u.think()
	default:
		u.acquire(u.think)
	}
}

func (u *user) think() { u.p.w.After(u.p.w.UpTo(10*time.Millisecond), u.next) }

func (u *user) acquire(then func()) { u.take(func(h *lease.Hold) { u.use(h, then) }, then) }

func (u *user) take(granted func(h *lease.Hold), refused func()) {
	w := u.p.w
	h := &lease.Hold{}
	r := u.request(wait.Acquire, func(err error) {
		if err != nil {
			refused()
			return
		}
		w.After(u.holding(), func() { granted(h) })
	})
	r.Hold, r.Owner, r.Try = h, u.owner, w.Chance(20)
	if w.Chance(30) {
		r.Lease = 50*time.Millisecond + w.UpTo(500*time.Millisecond)
	}
	if len(w.kinds) == 1 && w.kinds[0].Owned && r.Lease == 0 && w.Chance(15) { // the model of read/write locks has no at-least time
		r.AtLeast = 50*time.Millisecond + w.UpTo(machinetest.Lease)
		if w.Chance(30) {
			r.AtMost = r.AtLeast + w.UpTo(machinetest.Lease)
		}
	}
	u.send(r)
	if w.Chance(30) {
		u.p.Post(w.UpTo(50*time.Millisecond), wait.CancelRequest{Request: r, Cause: context.Canceled})
	}
}

// holding returns for how long a user holds a lease. The time is mostly short, and sometimes longer than any lease.
func (u *user) holding() time.Duration {
	if u.p.w.Chance(95) {
		return u.p.w.UpTo(3 * time.Millisecond)
	}
	return u.p.w.UpTo(4 * machinetest.Lease)
}

// use does something with the lease, and then releases it.
func (u *user) use(h *lease.Hold, then func()) {
	w := u.p.w
	switch {
	case w.Chance(10*len(w.kinds)) && !w.Calm:
		u.nest(h, then)
	case w.Chance(20) || h.Fixed() && w.Chance(50):
		for range 1 + w.Random.IntN(3) {
			w.After(w.UpTo(20*time.Millisecond), func() { u.extend(h) })
		}
		w.After(u.holding(), func() { u.release(h, then) })
	default:
		u.release(h, then)
	}
}

// nest re-enters, or takes the other half of a read/write lock, and releases the two leases in either order. Sometimes it releases the first lease
// without waiting for the second one.
func (u *user) nest(h *lease.Hold, then func()) {
	w := u.p.w
	release := func(h *lease.Hold, then func()) func() {
		return func() { w.After(u.holding(), func() { u.release(h, then) }) }
	}
	switch {
	case u.owner.IsZero():
		release(h, then)()
	case w.Chance(30):
		release(h, func() {})()
		u.acquire(then)
	case len(w.kinds) > 1 && w.Chance(50):
		u.take(func(inner *lease.Hold) { u.release(h, release(inner, then)) }, release(h, then))
	default:
		u.acquire(release(h, then))
	}
}

func (u *user) extend(h *lease.Hold) {
	w := u.p.w
	r := u.request(wait.Extend, func(error) {})
	r.Hold, r.Lease, r.Address = h, 50*time.Millisecond+w.UpTo(time.Second), h.Address()
	u.send(r)
	if w.Chance(20) {
		u.p.Post(w.UpTo(50*time.Millisecond), wait.CancelRequest{Request: r, Cause: context.Canceled})
	}
}

func (u *user) release(h *lease.Hold, then func()) {
	w := u.p.w
	r := u.request(wait.Release, func(err error) {
		if errors.Is(err, protocol.ErrNotHeld) {
			w.Failf("%s: released once, but: %v", u.p.Name, err)
		}
		w.checkRelease(u.p, h, err)
		then()
	})
	r.Address = h.Address()
	if !h.Claim() { // lost
		delete(u.p.waiting, r)
		then()
		return
	}
	r.Hold = h
	u.send(r)
	if w.Chance(5) {
		u.p.Post(w.UpTo(50*time.Millisecond), wait.CancelRequest{Request: r, Cause: context.Canceled})
	}
}
