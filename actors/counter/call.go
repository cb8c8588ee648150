package counter

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// countDone is the result of a script call of this counter.
type countDone struct {
	call    *countCall
	class   scripts.Class
	err     error
	sent    time.Duration // read just before the call was sent
	counted scripts.Counted
	expired bool // the script refused the call: it arrived after copies.limit, so Redis may have deleted the request's result
}

// notice returns a message for the actors that have leases of the counter's permits, if this call may have ended some of these leases. The shell
// sends the message (tellOthers). If no lease can have ended, notice returns nil.
func (m *countDone) notice() any {
	op := m.call.op
	switch known := m.class == scripts.Done; {
	case !op.Ends, !known && m.class != scripts.Unknown, known && m.counted.Number == 0:
		return nil
	case known && op.Grants != nil:
		return wait.Freed{Grants: op.Grants, Reason: protocol.LossReleasedByID}
	}
	return wait.LookAround{}
}

// countCall is a script call that the step asks for. Each time a request is sent again, it gets a new countCall, so a late result of an earlier
// call is not mistaken for the current call's.
type countCall struct {
	op     *scripts.CountOp
	raw    string // the counter's key
	terms  scripts.CountTerms
	copies *copies // of the same request
	task   *task   // nil if the call is for the waiters

	rpc.Call // the call in flight: the step sets its Timing, and the shell sets its other fields

	done countDone // its result, set by the shell
}

// copies is what is known about the calls of one request. Redis keeps the request's result and answers repeated calls with it, so several calls have
// the effect of one.
type copies struct {
	request        string        // id, or "" if there is none
	answered       []string      // ids of earlier requests; calls of this request delete the results that Redis keeps under these ids
	call           *countCall    // the call in flight
	sent           time.Duration // when the first call was sent, or 0 if none was
	duplicateUntil time.Duration // a delayed duplicate of a call without a reply may run until this instant
	limit          int64         // server time in ms: after it, the first call's result may be gone; 0 until the shell sets it
}

// recall withdraws the call if it has not been sent. It returns true if no call is in flight now.
func (c *copies) recall() bool {
	if c.call != nil && c.call.Withdraw() {
		c.call = nil
	}
	return c.call == nil
}

// disregard withdraws the call, or ignores its result if the call has been sent.
func (c *copies) disregard() {
	if !c.recall() {
		c.duplicateUntil = max(c.duplicateUntil, c.call.Deadline)
		c.call = nil
	}
}

// limitMargin is a safety margin: the result of a request counts as gone this long before Redis deletes it.
const limitMargin = 3 * time.Second

// ScriptCall returns the script of a call, with its arguments. Redis keeps the result of a request for a limited time, measured by the server's
// clock. A copy of the request that ran after that time would be executed as a new request. This must not happen, even if this process was paused or
// misjudges the server's clock. So copies carry a limit: the server time after which the script refuses them. The first call for which the server's
// time is known sets the limit, and all later copies carry the same limit.
func (c *countCall) ScriptCall(site *scripts.Site, at wait.ServerTime) scripts.Call {
	script, copies := c.op.Call(site, c.raw, c.terms), c.copies
	if script.Bounded() {
		if copies.limit == 0 {
			if limit, known := at(c.raw, copies.sent+c.terms.Keep-limitMargin); known {
				copies.limit = limit
			}
		}
		script.Limit = copies.limit
	}
	return script
}

func (c *countCall) Carrier() *rpc.Call { return &c.Call }
func (c *countCall) Recycle()           {}

func (c *countCall) Answered(m *rpc.Result) (message, notice any) {
	c.done = c.read(m)
	return &c.done, c.done.notice()
}

// read converts a raw result into a message for the step.
func (c *countCall) read(m *rpc.Result) countDone {
	done := countDone{call: c, class: m.Class, err: m.Err, sent: m.Sent}
	if ms, late := scripts.LateBy(m.Err); late {
		done.expired = c.copies.limit > 0 && ms > c.copies.limit
	}
	if m.Class != scripts.Done {
		return done
	}
	var err error
	if done.counted, err = scripts.ReadCounted(m.Reply, c.op, &c.terms); err != nil {
		done.class, done.err = scripts.Unknown, err
	}
	return done
}
