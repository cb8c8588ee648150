package rpc

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/scripts"
)

// Call is one script call on its way through the gateway. The sender must not touch it after sending, but may withdraw it.
type Call struct {
	scripts.Call
	Timing
	From any // the PID of the actor that gets a *Result
	Tag  any // whatever the sender needs to know it again

	// set by whoever claims it, which the gateway does when it leaves the line, or the sender to withdraw it
	claimed  atomic.Bool
	Since    time.Duration // from when on Redis has not answered it; before that, it answered others that were in front
	NotAfter time.Duration // when it must not be executed any more; 0: it was not sent
	Deadline time.Duration // without an answer by then its outcome is unknown; likewise

	result Result // what it is answered with; whoever has claimed it in its batch writes it
}

// Result answers a Call, exactly once.
type Result struct {
	Call  *Call // nil until it is answered
	Class scripts.Class
	Last  bool // nobody but who gets this knows the call any more
	Reply any
	Err   error
	Sent  time.Duration // the instant before it was sent, 0: it was not

	Unacked error // enough replicas may not have what was written
}

// Leave takes a call out of the line to be sent at this instant. Redis was heard last at the other. It fails if the call was withdrawn.
func (c *Call) Leave(now, heard time.Duration) bool {
	c.NotAfter, c.Deadline = c.SentAt(now)
	return c.Expire(heard)
}

// Expire takes a call out of the line that is never to be sent. It fails if the call was withdrawn.
func (c *Call) Expire(heard time.Duration) bool {
	c.Since = max(c.Asked, heard)
	return c.claimed.CompareAndSwap(false, true)
}

// Withdraw takes back a call that has not been sent. Nothing comes of it then, not even an answer. Else it is too late: it may be
// executed until its deadline, and will be answered.
func (c *Call) Withdraw() bool { return c.claimed.CompareAndSwap(false, true) }

// Withdrawn reports whether it was taken back while it waited in the line.
func (c *Call) Withdrawn() bool { return c.claimed.Load() }

// Answer completes a result, which is sent then. Only whoever has claimed the call in its batch may do so.
func (c *Call) Answer(r Result) *Result {
	r.Call = c
	c.result = r
	return &c.result
}
