package sim

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/protocol"
)

// messenger is a user's actor, which asks for locks by messages. Sometimes the actor ends while it waits for a lock, or ends without releasing the
// lock that it holds. Then the runtime has to end the wait or the lease.
type messenger struct {
	u       *user
	pid     *actor.PID
	dead    atomic.Bool
	asked   uint64
	answers chan any // to the last request

	mu   sync.Mutex
	held *told
}

// request makes the actor send a message to a lock.
type request struct {
	to      *actor.PID
	message any
}

func newMessenger(u *user) *messenger {
	m := &messenger{u: u, answers: make(chan any, 100)}
	m.pid = u.p.system.Root.Spawn(actor.PropsFromFunc(m.receive))
	return m
}

func (m *messenger) receive(c actor.Context) {
	switch message := c.Message().(type) {
	case request:
		c.Request(message.to, message.message)
	case *protocol.Granted, *protocol.Refused, *protocol.Released, *protocol.Renewed, *actor.DeadLetterResponse:
		m.answers <- message
	case *protocol.Lost:
		if held := m.last(); held != nil && held.granted.Serial == message.Serial {
			held.end(message.Err)
		}
	}
}

// die stops the actor. The user gets another one for its next request.
func (m *messenger) die() {
	m.u.say("its actor ends")
	m.u.messenger = nil
	m.dead.Store(true)
	m.u.p.system.Root.Stop(m.pid)
	m.u.sleep(between(m.u.r, 0, 20*time.Microsecond)) // so that the runtime learns of it first
}

func (m *messenger) last() *told {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// ask acquires a lock by a message and waits for the answer.
func (u *user) ask(h *hold) (lease, error) {
	if u.messenger == nil {
		u.messenger = newMessenger(u)
	}
	m := u.messenger
	lock := h.place.lock(u.p.rt, h.reads).PID()
	acquire := &protocol.Acquire{Kind: h.place.message(h.reads), Lock: h.place.name, Owner: h.owner}
	if u.r.IntN(3) == 0 {
		acquire.Try = true
	} else {
		acquire.Wait = between(u.r, time.Millisecond, 4*u.w.plan.lease)
	}
	if h.fixed {
		acquire.Lease = between(u.r, 50*time.Millisecond, 2*u.w.plan.lease)
	}
	m.asked++
	acquire.ID = m.asked
	over := u.w.oracle.waits(u.p, u.name, h.place, acquire.Try)
	defer over()
	ctx, cancel := context.WithCancel(u.p.ctx)
	if u.r.IntN(6) == 0 {
		ctx, cancel = u.p.within(between(u.r, time.Microsecond, u.w.plan.lease))
	}
	defer cancel()
	switch answer := m.answer(ctx, lock, acquire).(type) {
	case *protocol.Granted:
		held := &told{m: m, lock: lock, granted: answer, done: make(chan struct{})}
		m.mu.Lock()
		m.held = held
		m.mu.Unlock()
		return held, nil
	case *protocol.Refused:
		return nil, answer.Err
	}
	if !u.p.over() {
		m.die()
	}
	return nil, holdfast.ErrClosed // or the runtime has closed, or its process is dead
}

// answer sends a message and waits for the reply; nil means that ctx has ended.
func (m *messenger) answer(ctx context.Context, lock *actor.PID, message any) any {
	m.u.p.system.Root.Send(m.pid, request{lock, message})
	select {
	case answer := <-m.answers:
		return answer
	case <-ctx.Done():
		return nil
	}
}

// told is a lease that was granted to an actor by a message.
type told struct {
	m       *messenger
	lock    *actor.PID
	granted *protocol.Granted

	mu   sync.Mutex
	done chan struct{}
	err  error
}

func (t *told) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
		close(t.done)
	}
}

func (t *told) Valid() bool           { return !t.m.dead.Load() && t.granted.Valid() }
func (t *told) ExpiresAt() time.Time  { return time.Time{} } // the actor knows only the first deadline, before any renewal
func (t *told) ID() string            { return t.granted.LeaseID }
func (t *told) Token() int64          { return t.granted.Token }
func (t *told) Done() <-chan struct{} { return t.done }

func (t *told) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *told) Extend(ctx context.Context, d time.Duration) error {
	m := t.m
	m.asked++
	answer := m.answer(ctx, t.lock, &protocol.Renew{ID: m.asked, Kind: t.granted.Kind, Lock: t.granted.Lock, Serial: t.granted.Serial, Lease: d})
	if renewed, ok := answer.(*protocol.Renewed); ok {
		return renewed.Err
	}
	return holdfast.ErrClosed
}

// Release ignores its context: a message cannot be taken back.
func (t *told) Release(context.Context) error {
	m := t.m
	switch {
	case m.dead.Load():
		return holdfast.ErrNotHeld
	case t.Err() == nil && m.u.r.IntN(6) == 0 && !m.u.p.over():
		m.die()
		t.end(holdfast.ErrNotHeld)
		return nil
	}
	m.asked++
	answer := m.answer(m.u.p.ctx, t.lock, &protocol.Release{ID: m.asked, Kind: t.granted.Kind, Lock: t.granted.Lock, Serial: t.granted.Serial})
	if released, ok := answer.(*protocol.Released); ok {
		t.end(errors.Join(holdfast.ErrNotHeld, released.Err))
		return released.Err
	}
	return holdfast.ErrClosed
}
