package counter

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// limitMargin is subtracted from the time for which Redis keeps the result of a request: after the shorter time, the result counts as gone.
const limitMargin = 3 * time.Second

// ScriptCall returns the script of a call, with its arguments. Redis keeps the result of a request for a limited time by its own clock. No copy of
// the request may run after that time, even if this process was paused or misjudges the server's clock: it would be executed as a new request. So the
// first call for which the server's time is known fixes the limit in server time, and all later copies carry the same one.
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

func (c *countCall) Answered(m *rpc.Result) (message, news any) {
	c.done = c.read(m)
	return &c.done, c.done.news()
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
