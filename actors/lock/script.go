package lock

import (
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// lockCalls keeps answered main calls for reuse: without that, calls would be half of what an acquire and its release allocate.
var lockCalls = sync.Pool{New: func() any { return new(lockCall) }}

// ScriptCall returns the script of a call, with its arguments.
func (c *lockCall) ScriptCall(site *scripts.Site, _ wait.ServerTime) scripts.Call {
	kind, raw := c.address.Kind, c.address.Raw
	switch c.do {
	case callAcquire:
		return kind.Acquire(site, raw, scripts.Terms{
			Grant: c.grant, Lease: c.lease, Alone: c.alone, Channel: c.channel, Try: c.try, Standing: c.standing,
			Room: &c.room, Arguments: &c.address.Arguments,
		})
	case callPass:
		terms := scripts.Terms{From: c.from, Grant: c.grant, Lease: c.lease, TurnEnds: c.ends, Idlers: c.idlers}
		return kind.Pass(site, raw, terms)
	case callRelease, callOrphan:
		terms := scripts.Terms{Grant: c.grant, Keep: c.keep, Room: &c.room, Arguments: &c.address.Arguments}
		if c.heir != nil {
			terms.Heir, terms.HeirLease = c.heir.id, c.heir.ttl
		}
		return kind.Release(site, raw, terms)
	case callExtend:
		return kind.Renew(site, []string{raw}, []string{c.grant}, c.lease)
	case callInspect:
		return kind.Inspect(raw)
	case callLook:
		return kind.Look(raw, c.grant)
	case callForceRelease:
		return kind.ForceRelease(site, raw)
	}
	panic(fmt.Sprintf("no script for call %d", c.do))
}

func (c *lockCall) Carrier() *rpc.Call { return &c.Call }

// Recycle keeps a main call for reuse. Other calls are few, and the state may still refer to them.
func (c *lockCall) Recycle() {
	if c.do <= callRelease {
		*c = lockCall{}
		lockCalls.Put(c)
	}
}

// Answered turns a raw result into what the step understands. A reply that cannot be understood leaves the outcome unknown: the script was
// executed, but nobody knows with what result.
func (c *lockCall) Answered(m *rpc.Result) (message, news any) {
	done := &c.done
	*done = callDone{call: c, class: m.Class, err: m.Err, sent: m.Sent}
	var err error
	switch {
	case m.Class != scripts.Done: // there is no result
	case c.do == callAcquire:
		done.acquired, err = scripts.ReadAcquired(m.Reply, c.grant)
		done.unacked = m.Unacked
	case c.do == callRelease, c.do == callOrphan:
		var released scripts.Released
		released, err = scripts.ReadReleased(m.Reply)
		done.receivers, done.held = released.Receivers, released.Held
		done.inherits = c.heir != nil && released.Heir == c.heir.id
	case c.do == callPass:
		var passed scripts.Passed
		passed, err = scripts.ReadPassed(m.Reply, c.grant)
		done.held, done.tokens, done.receivers = passed.Held, passed.Tokens, passed.Receivers
	case c.do == callForceRelease:
		done.freed, err = scripts.ReadFreed(m.Reply)
		done.held = len(done.freed) > 0
	case c.do == callExtend:
		var gone []int
		gone, err = scripts.ReadRenewed(m.Reply, []string{c.grant})
		done.held = len(gone) == 0
	case c.do == callInspect:
		done.state = new(protocol.State)
		*done.state, err = scripts.ReadInspected(m.Reply)
	case c.do == callLook:
		done.held, err = scripts.ReadLooked(m.Reply)
	}
	if err != nil {
		done.class, done.err = scripts.Unknown, err
		if errors.Is(err, protocol.ErrForeignKey) { // the reply is valid, but not about a lock
			done.class = scripts.Rejected
		}
	}
	if c.do == callForceRelease {
		news = done.news()
	}
	return done, news
}
