package actors

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// onMessage takes the requests of the actor message API, as values or as pointers.
func (r *router) onMessage(c actor.Context, message any) {
	switch m := message.(type) {
	case protocol.Acquire:
		r.onAcquire(c, &m)
	case *protocol.Acquire:
		r.onAcquire(c, m)
	case protocol.Cancel:
		r.onCancel(c, &m)
	case *protocol.Cancel:
		r.onCancel(c, m)
	case protocol.Release:
		r.onRelease(c, &m)
	case *protocol.Release:
		r.onRelease(c, m)
	case protocol.Renew:
		r.onRenew(c, &m)
	case *protocol.Renew:
		r.onRenew(c, m)
	case protocol.Inspect:
		r.onInspect(c, &m)
	case *protocol.Inspect:
		r.onInspect(c, m)
	default:
		r.engine.drop("", fmt.Sprintf("unknown message %T", message))
	}
}

func (r *router) onAcquire(c actor.Context, m *protocol.Acquire) {
	q := r.request(c, opAcquire, m.ID, m.Kind, m.Lock)
	if q == nil {
		return
	}
	spec := AcquireSpec{Owner: m.Owner, Lease: m.Lease, Wait: m.Wait, Try: m.Try, Backoff: m.Backoff}
	err := r.engine.Check(q.address.Kind, &spec)
	q.owner, q.lease, q.try, q.bounded, q.hold, q.backoff = m.Owner, m.Lease, m.Try, m.Wait > 0, &Hold{}, spec.Backoff
	if err != nil {
		q.err = fmt.Errorf("holdfast: acquire %q: %w", m.Lock, err)
		r.engine.answer(q)
		return
	}
	if m.Wait > 0 {
		root, self := r.engine.root, c.Self()
		q.wait = r.engine.clock.AfterFunc(m.Wait, func() { root.Send(self, cancelRequest{request: q, cause: protocol.ErrNotAcquired}) })
	}
	r.forward(c, q.address, q)
}

func (r *router) onCancel(c actor.Context, m *protocol.Cancel) {
	q := r.request(c, opAcquire, m.ID, m.Kind, m.Lock)
	if q == nil {
		return
	}
	if s := r.slots[keyOf(q.address)]; s != nil {
		r.deliver(c, s, cancelByID{requester: q.requester, id: m.ID})
	}
}

func (r *router) onRelease(c actor.Context, m *protocol.Release) {
	if q := r.request(c, opRelease, m.ID, m.Kind, m.Lock); q != nil {
		q.serial = m.Serial
		r.forward(c, q.address, q)
	}
}

func (r *router) onRenew(c actor.Context, m *protocol.Renew) {
	q := r.request(c, opExtend, m.ID, m.Kind, m.Lock)
	if q == nil {
		return
	}
	q.serial, q.lease = m.Serial, m.Lease
	if err := CheckLease(m.Lease); err != nil {
		q.err = fmt.Errorf("holdfast: extend %q: %w", m.Lock, err)
		r.engine.answer(q)
		return
	}
	r.forward(c, q.address, q)
}

func (r *router) onInspect(c actor.Context, m *protocol.Inspect) {
	if q := r.request(c, opInspect, m.ID, m.Kind, m.Lock); q != nil {
		r.forward(c, q.address, q)
	}
}

// request makes the request that a message asks for; nil, with everything reported, when it cannot be served.
func (r *router) request(c actor.Context, do operation, id uint64, kind protocol.Kind, name string) *Request {
	if c.Sender() == nil {
		r.engine.drop(name, "no sender to answer to: send it with Request, not with Send")
		return nil
	}
	q := &Request{do: do, id: id, requester: c.Sender()}
	k, ok := scripts.KindOf(kind)
	if !ok {
		r.engine.drop(name, "unknown kind "+Quoted(string(kind)))
		q.address = &Address{Kind: &scripts.Kind{Name: kind}, Name: name}
		q.err = fmt.Errorf("holdfast: %s %s: %w: unknown kind %s", do, Quoted(name), protocol.ErrInvalid, Quoted(string(kind)))
		r.engine.answer(q)
		return nil
	}
	address, err := r.engine.Address(k, name)
	q.address = address
	if err != nil {
		q.err = fmt.Errorf("holdfast: %s %s: %w", do, Quoted(name), err)
		r.engine.answer(q)
		return nil
	}
	return q
}

// The bounds of a fixed lease.
const (
	MinLease = 50 * time.Millisecond
	MaxLease = 24 * time.Hour
)

// CheckLease checks the length of a fixed lease.
func CheckLease(d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return fmt.Errorf("%w: lease %v is not between %v and %v", protocol.ErrInvalid, d, MinLease, MaxLease)
	}
	return nil
}

func (e *Engine) checkAcquire(owner protocol.Owner, lease, wait time.Duration, try bool) error {
	switch {
	case !owner.IsZero() && owner.Runtime() != e.id:
		return fmt.Errorf("%w: owner %v is of another runtime", protocol.ErrInvalid, owner)
	case lease != 0:
		return CheckLease(lease)
	case wait < 0:
		return fmt.Errorf("%w: wait %v is negative", protocol.ErrInvalid, wait)
	case wait > 0 && try:
		return fmt.Errorf("%w: a try does not wait", protocol.ErrInvalid)
	}
	return nil
}
