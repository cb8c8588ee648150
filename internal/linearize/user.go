package linearize

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
)

// user acquires and releases locks of its runtime, and records the results.
type user struct {
	*run
	rt      *holdfast.Runtime
	runtime int
	number  int
	dice    *rand.Rand
}

// held is a lease in the hands of a user.
type held struct {
	lease *holdfast.Lease
	owner holdfast.Owner // if zero, each acquire has an owner of its own
	op    Op             // what all operations on the lease have in common
}

// work acquires and releases locks until ctx ends, and holds none after that.
func (u *user) work(ctx context.Context) {
	for ctx.Err() == nil {
		name := u.names[u.dice.IntN(len(u.names))]
		if name == u.forced && u.dice.IntN(3) == 0 {
			u.force(name)
			continue
		}
		h := u.acquire(name, holdfast.Owner{}, nil)
		if h == nil {
			u.pause(ctx, u.between(100*time.Microsecond, 3*time.Millisecond))
			continue
		}
		u.use(ctx, h)
		u.release(h)
	}
}

func (u *user) between(least, most time.Duration) time.Duration {
	return least + time.Duration(u.dice.Int64N(int64(most-least)+1))
}

// pause waits for d, but not beyond the end of the run.
func (u *user) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// acquire acquires a lock in a way chosen at random. It returns nil if the lock was not acquired.
func (u *user) acquire(name string, owner holdfast.Owner, outer *held) *held {
	h := &held{op: Op{Do: doAcquire, Name: name, Runtime: u.runtime, User: u.number, Lease: u.nextLease(), Length: u.lease}}
	var options []holdfast.AcquireOption
	switch {
	case outer != nil:
		h.op.Owner, h.op.Length, h.op.Fixed, h.op.Mode = outer.op.Owner, outer.op.Length, outer.op.Fixed, outer.op.Mode
		options = append(options, holdfast.WithOwner(owner))
	default:
		h.op.Owner = fmt.Sprintf("lease %d", h.op.Lease)
		if len(u.kind.Modes) > 0 {
			h.op.Mode = u.kind.Modes[u.dice.IntN(len(u.kind.Modes))]
		}
		if owner = u.rt.NewOwner(); u.kind.Permits == 0 && u.dice.IntN(3) == 0 {
			h.op.Owner, h.owner = owner.String(), owner
			options = append(options, holdfast.WithOwner(owner))
		}
		if u.dice.IntN(3) == 0 {
			h.op.Length, h.op.Fixed = u.between(u.lease/3, u.lease), true
		}
	}
	if h.op.Fixed {
		options = append(options, holdfast.WithLease(h.op.Length))
	}
	from := u.kind.take(u.rt, name, h.op.Mode)
	ctx, cancel := context.WithTimeout(context.Background(), u.between(time.Millisecond, u.lease))
	defer cancel()
	if u.dice.IntN(3) == 0 && outer == nil {
		h.op.Do, ctx = doTry, context.Background()
	}
	return u.ask(ctx, from, h, options)
}

func (u *user) ask(ctx context.Context, from taker, h *held, options []holdfast.AcquireOption) *held {
	var err error
	op := h.op
	op.Call = u.now()
	if op.Do == doTry {
		h.lease, err = from.TryAcquire(ctx, options...)
	} else {
		h.lease, err = from.Acquire(ctx, options...)
	}
	op.Return = u.now()
	if op.Result = outcome(err); err != nil {
		var busy *holdfast.BusyError
		if op.Result == isBusy && errors.As(err, &busy) {
			op.Holder = busy.Holder
		}
		op.note(err)
		u.op(op)
		return nil
	}
	op.Grant, op.Token, op.Until = h.lease.ID(), h.lease.Token(), u.until(h.lease)
	h.op = op
	u.op(op)
	return h
}

// until returns a lease's deadline as an instant of the run, or 0 if the lease has ended.
func (u *user) until(lease *holdfast.Lease) time.Duration {
	at := lease.ExpiresAt()
	if at.IsZero() {
		return 0
	}
	return at.Sub(u.start)
}

func (op *Op) note(err error) {
	if err != nil && op.Result == isUnknown {
		op.Error = err.Error()
	}
}

func outcome(err error) string {
	switch {
	case err == nil:
		return isOK
	case errors.Is(err, holdfast.ErrLeaseLost):
		return isLost
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(err, holdfast.ErrNotAcquired):
		return isCancelled
	case errors.Is(err, holdfast.ErrNotAcquired):
		return isBusy
	}
	return isUnknown
}

// use keeps a lease for a while, in a way chosen at random.
func (u *user) use(ctx context.Context, h *held) {
	u.look(h)
	dice := u.dice.IntN(100)
	if h.op.Name == u.forced && dice%2 == 0 {
		dice = 93 // keeps the lease long enough for a forced release to hit it
	}
	switch {
	case dice < 60:
		u.pause(ctx, u.between(0, 2*time.Millisecond))
	case dice < 75:
		u.keep(ctx, h, u.between(0, 20*time.Millisecond))
	case dice < 85:
		u.reenter(ctx, h)
	case dice < 92:
		u.extend(h, u.between(u.lease/3, u.lease))
		u.keep(ctx, h, u.between(0, 10*time.Millisecond))
	case dice < 94:
		u.keep(ctx, h, u.between(u.lease, u.lease*3/2)) // its lease ends, or is renewed
	case dice < 96:
		u.pause(ctx, u.between(u.lease, u.lease*3/2)) // the holder releases late
		if u.dice.IntN(2) == 0 {
			u.extend(h, u.between(u.lease/3, u.lease))
		}
	}
	u.look(h)
}

// keep looks at a lease every few ms, for d or until it sees that the lease has ended.
func (u *user) keep(ctx context.Context, h *held, d time.Duration) {
	for end := u.now() + d; u.now() < end && ctx.Err() == nil; {
		u.pause(ctx, u.between(time.Millisecond, 4*time.Millisecond))
		if !u.look(h) {
			return
		}
	}
}

// look checks a lease and records the result. If the lease is valid, look also uses the resource. It returns false once the holder has learned that
// the lease has ended.
func (u *user) look(h *held) bool {
	op := h.op
	op.Do, op.Call, op.Until = doValid, u.now(), u.until(h.lease)
	valid := h.lease.Valid()
	op.Return = u.now()
	if valid && op.Until > 0 {
		op.Result = isOK
		u.op(op)
		u.write(h)
		return true
	}
	select {
	case <-h.lease.Done():
		op.Do, op.Result, op.Call, op.Until = doLost, isLost, op.Return, 0
		u.op(op)
		return false
	default:
		return true
	}
}

// write uses a resource that refuses smaller tokens than the largest it has seen.
func (u *user) write(h *held) {
	if !u.kind.Fenced {
		return
	}
	op := h.op
	op.Do, op.Call, op.Until, op.Result = doWrite, u.now(), 0, isOK
	accepted := u.registers[op.Name].accepts(op.Token)
	if op.Return = u.now(); !accepted && h.lease.Valid() {
		op.Result = isRefused
	}
	u.op(op)
}

func (u *user) reenter(ctx context.Context, outer *held) {
	if u.kind.Permits > 0 || outer.owner == (holdfast.Owner{}) {
		return
	}
	inner := u.acquire(outer.op.Name, outer.owner, outer)
	if inner == nil {
		return
	}
	u.look(inner)
	u.pause(ctx, u.between(0, 2*time.Millisecond))
	u.release(inner)
}

func (u *user) extend(h *held, length time.Duration) {
	if !h.op.Fixed {
		return
	}
	op := h.op
	op.Do, op.Length, op.Call = doExtend, length, u.now()
	err := h.lease.Extend(context.Background(), length)
	op.Return, op.Until, op.Result = u.now(), u.until(h.lease), outcome(err)
	if op.Result == isOK {
		h.op.Length = length
	}
	op.note(err)
	u.op(op)
}

func (u *user) release(h *held) {
	op := h.op
	op.Do, op.Until, op.Call = doRelease, 0, u.now()
	err := h.lease.Release(context.Background())
	op.Return, op.Result = u.now(), outcome(err)
	op.note(err)
	u.op(op)
}

// force releases a lock by force, whoever holds it.
func (u *user) force(name string) {
	op := Op{Do: doForce, Name: name, Runtime: u.runtime, User: u.number, Call: u.now()}
	held, err := u.kind.take(u.rt, name, "").(*holdfast.Lock).ForceRelease(context.Background())
	op.Return, op.Result = u.now(), outcome(err)
	if err == nil && !held {
		op.Result = isBusy
	}
	op.note(err)
	u.op(op)
}
