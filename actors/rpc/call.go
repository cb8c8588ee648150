package rpc

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/scripts"
)

// Call is one script call on its way through a gateway. Once the call is submitted, its sender must not change it, but may withdraw it.
type Call struct {
	scripts.Call
	Timing
	From  Caller // gets a *Result
	Tag   any    // anything by which the sender recognizes the call
	Locks int    // number of names that the call is about; 0 stands for one

	Acquires bool // the call tries to acquire a lock; replicas may have to acknowledge the grant

	claimed atomic.Bool // set by the gateway when it takes the call out of its line, or by the sender when it withdraws the call

	// set by the gateway when it takes the call out of its line
	Since    time.Duration // Redis has kept the call waiting since this instant: Asked, or the last answer of Redis if that was later
	NotAfter time.Duration // the last instant at which Redis may execute the call; 0 if the call left the line without being sent
	Deadline time.Duration // if there is no answer by this instant, the outcome is unknown; 0 if NotAfter is 0

	result Result // the call's result; see Answer
}

// Caller is the actor that makes a call. Send gives it a message, and does not block.
type Caller interface{ Send(message any) }

// Result answers a Call, exactly once.
type Result struct {
	Call  *Call // nil until the call is answered
	Class scripts.Class
	Last  bool // if true, nobody else uses the call any more, so the receiver of this result may reuse the call
	Reply any
	Err   error
	Sent  time.Duration // the instant just before the call was sent; 0 if the call was not sent, or if the gateway has given up waiting for the reply

	Unacked error // why too few replicas have acknowledged what the call wrote, or nil
}

// Leave takes a call out of the line when the call is about to be sent. heard is the instant at which Redis last answered. Leave fails if the call
// was withdrawn.
func (c *Call) Leave(now, heard time.Duration) bool {
	c.NotAfter = c.Latest(now)
	c.Deadline, c.Since = c.NotAfter+c.Grace, max(c.Asked, heard)
	return c.claimed.CompareAndSwap(false, true)
}

// Expire removes a call from the line without sending it. It fails if the call was withdrawn.
func (c *Call) Expire(heard time.Duration) bool {
	c.Since = max(c.Asked, heard)
	return c.claimed.CompareAndSwap(false, true)
}

// Withdraw takes back a call that has not been sent. The call is then never executed, and gets no result. If Withdraw fails, the call may be
// executed until NotAfter, and will be answered.
func (c *Call) Withdraw() bool { return c.claimed.CompareAndSwap(false, true) }

// Withdrawn reports whether a call that is in the line was withdrawn. It must not be used for a call that has left the line: for that call, it
// always returns true.
func (c *Call) Withdrawn() bool { return c.claimed.Load() }

// Answer stores the result of a call, and returns it for the gateway to send. A call is answered only once. So code may call Answer only if it has
// claimed the call in its batch (the field `claims` of the gateway's batch), has removed the call from the line with Expire, or has never put the
// call in line.
func (c *Call) Answer(r Result) *Result {
	r.Call = c
	c.result = r
	return &c.result
}

// Timing says how long a call may wait to be sent, and then for its answer.
//
// The two times are separate because their ends mean different things. A call that was never sent has done nothing, so nobody has to repeat it. Such
// a call may wait in line for as long as its caller waits. But once a call is sent, Redis may execute it at any time until the call's window has
// passed.
type Timing struct {
	Asked    time.Duration // when the sender asked for it
	window   time.Duration // begins when the call is sent; when it is over, Redis must not execute the call any more
	Grace    time.Duration // how long after NotAfter the answer may come: time for replicas to acknowledge, or the rest of the window after Until
	Until    time.Duration // Redis must not execute the call after this instant, whenever it is sent; clock.Never if there is no such instant
	Patience time.Duration // the call is refused if it has not been sent and Redis has been silent for this long
	First    bool          // the call goes before other calls: it is a repeat, or gives something back
}

// Patient returns the timing of a call that may wait in line until Redis has been silent for the time `patience`.
func Patient(now, window, patience time.Duration) Timing {
	return Timing{Asked: now, window: window, Until: clock.Never, Patience: patience}
}

// Hasty returns the timing of a call that must be answered within a window from now.
func Hasty(now, window time.Duration) Timing {
	return Timing{Asked: now, window: window, Until: now + window, Patience: window}
}

// Latest returns the last instant at which a call that is sent now may be executed.
func (t *Timing) Latest(now time.Duration) time.Duration { return min(t.Until, now+t.window) }

// Expires returns the instant at which a call is refused if it has not been sent. heard is the instant at which Redis last answered.
func (t *Timing) Expires(heard time.Duration) time.Duration {
	return min(t.Until, max(t.Asked, heard)+t.Patience)
}

// Window returns how long one attempt may take if it concerns a lease of the given length. After that time, the outcome of the attempt counts as
// unknown.
func Window(lease time.Duration) time.Duration { return min(lease/3, 2*time.Second) }

// Offer is the offer of a goroutine to send a call itself. The goroutine has made a request, and waits for the answer anyway. If the lock's actor
// has a call to send when it handles the request, the actor leaves the call to that goroutine. To wake another goroutine for the call would cost
// more CPU than the call itself.
//
// The zero value offers nothing.
type Offer struct{ call atomic.Pointer[Call] }

// offered marks an offer for which no call has been left yet.
var offered = new(Call)

// Make begins the offer. The goroutine must call Collect after it has sent the request, and before it waits.
func (o *Offer) Make() { o.call.Store(offered) }

// Leave leaves a call to the goroutine that made the offer. It fails if nothing is offered, or if a call was left before.
func (o *Offer) Leave(c *Call) bool { return o.call.CompareAndSwap(offered, c) }

// Collect ends the offer, and returns the call that was left, or nil if there is none.
func (o *Offer) Collect() *Call {
	if c := o.call.Swap(nil); c != offered {
		return c
	}
	return nil
}

// The reasons why a call has no reply from Redis.
var (
	ErrNoAnswer = timeout("no answer")
	ErrNotSent  = timeout("not sent")

	ErrNoAnswerYet = fmt.Errorf("%w from Redis yet", ErrNoAnswer)
)

// timeout is an error that says that something was not done in time. It is a net.Error.
type timeout string

func (e timeout) Error() string { return string(e) }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }
