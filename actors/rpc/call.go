package rpc

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/scripts"
)

// Call is one script call on its way through a gateway. Once the call is submitted, its sender must not change it, but may withdraw it.
type Call struct {
	scripts.Call
	Timing
	From  Caller // gets a *Result
	Tag   any    // anything by which the sender recognizes the call
	Locks int    // number of names that the call is about; 0 stands for one

	claimed atomic.Bool // set by the gateway when it takes the call out of its line, or by the sender when it withdraws the call

	// set by the gateway when it takes the call out of its line
	Since    time.Duration // since when Redis has kept the call waiting: from its submission, or from Redis's last answer to another call if that is later
	NotAfter time.Duration // the last instant at which Redis may execute the call; 0: it was not taken out of the line to be sent
	Deadline time.Duration // if there is no answer by this instant, the outcome is unknown; 0: as for NotAfter

	result Result // the call's result; see Answer
}

// Caller is the actor that makes a call. Send gives it a message, and does not block.
type Caller interface{ Send(message any) }

// Result answers a Call, exactly once.
type Result struct {
	Call  *Call // nil until it is answered
	Class scripts.Class
	Last  bool // only the receiver of this result refers to the call now, so the call may be reused
	Reply any
	Err   error
	Sent  time.Duration // the instant before the call was sent; 0: it was not executed, or got no answer by its deadline

	Unacked error // too few replicas have acknowledged what the call wrote
}

// Leave takes a call out of the line to be sent now. heard is the instant at which Redis last answered. Leave fails if the call was withdrawn.
func (c *Call) Leave(now, heard time.Duration) bool {
	c.NotAfter, c.Deadline = c.SentAt(now)
	return c.Expire(heard)
}

// Expire removes a call from the line without sending it. It fails if the call was withdrawn.
func (c *Call) Expire(heard time.Duration) bool {
	c.Since = max(c.Asked, heard)
	return c.claimed.CompareAndSwap(false, true)
}

// Withdraw takes back a call that has not been sent. The call is then never executed, and gets no result. If Withdraw fails, the call may be
// executed until its deadline, and will be answered.
func (c *Call) Withdraw() bool { return c.claimed.CompareAndSwap(false, true) }

// Withdrawn reports whether a call that is in the line was taken back.
func (c *Call) Withdrawn() bool { return c.claimed.Load() }

// Answer completes a result, for the gateway to send. Only whoever has claimed the call in its batch, or has removed it by Expire, may do so. So a
// call is answered once.
func (c *Call) Answer(r Result) *Result {
	r.Call = c
	c.result = r
	return &c.result
}
