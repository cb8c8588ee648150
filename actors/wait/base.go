package wait

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
)

// Base is what every machine has. A machine embeds it.
type Base struct {
	Policy  *Policy
	Address *lease.Address
	Queue   Queue // the waiters, oldest first
	Stage   Stage

	AlarmAt time.Duration // the instant of the shell's timer, or of the alarm in the group (lock.Group); clock.Never if there is none
	effects []Effect
}

// NewBase returns the base of a machine.
func NewBase(policy *Policy, address *lease.Address) Base {
	return Base{Policy: policy, Address: address, AlarmAt: clock.Never}
}

// Emit adds an effect to those of the step.
func (b *Base) Emit(e Effect) { b.effects = append(b.effects, e) }

// Answer answers a request.
func (b *Base) Answer(r *Request, err error) {
	r.Err = err
	b.Emit(Effect{Do: DoAnswer, Request: r})
}

// Fail answers a request with an error that has this cause. If cause is nil, the operation has succeeded, and the answer has no error.
func (b *Base) Fail(r *Request, cause error) {
	if cause != nil {
		cause = r.Because(cause)
	}
	b.Answer(r, cause)
}

// RefuseAll answers every waiter with an error.
func (b *Base) RefuseAll(cause error) {
	for r := b.Queue.Front(); r != nil; r = b.Queue.Front() {
		b.Queue.Remove(r)
		b.Fail(r, cause)
	}
}

// Leave tells Close why a grant stays in Redis.
func (b *Base) Leave(refusal error) {
	if b.Stage >= Closing {
		b.Emit(Effect{Do: DoLeave, Err: refusal})
	}
}

// SetAlarm sets the shell's timer.
func (b *Base) SetAlarm(at time.Duration) {
	if at != b.AlarmAt {
		b.AlarmAt = at
		b.Emit(Effect{Do: DoAlarm, At: at})
	}
}

// TakeEffects returns the effects, and empties the list. If a step panics, its effects stay in the list, so that Distrust returns them.
func (b *Base) TakeEffects() []Effect {
	effects := b.effects
	b.effects = nil
	return effects
}

// Unanswer removes the answer to a request from the effects, because the caller of Distrust answers the request.
func (b *Base) Unanswer(r *Request) {
	b.effects = slices.DeleteFunc(b.effects, func(e Effect) bool { return e.Do == DoAnswer && e.Request == r })
}

// Room is the buffer for the effects of a step. While the shell carries effects out, it holds those that are left.
func (b *Base) Room() *[]Effect { return &b.effects }
