package lock

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// The messages of a lock machine, besides those of packages wait and lease.
type (
	// woken says when to try again: the group has received a release message, or knows of a free grant.
	woken struct{ at time.Duration }
	// inherited says that a release of this process has made its heir the holder: a contender of this process that was the first in Redis' queue. id
	// is the heir's grant. The release was sent at `sent`, in a turn that began at `began`.
	inherited struct {
		id          string
		sent, began time.Duration
	}
	// promoted ends a contender's standby. If called is set, the contender asks Redis for the lock at once: it is probably the first in Redis' queue,
	// or the holder.
	promoted struct{ called bool }
	// deposed ends a grant, because Redis has since made another one that cannot exist beside it.
	deposed struct{}
	// callDone is the result of a script call of this lock.
	callDone struct {
		call  *lockCall
		class scripts.Class
		err   error
		sent  time.Duration // the instant before the call was sent

		acquired  scripts.Acquired
		unacked   error          // of an acquire: the reason why too few replicas have acknowledged it
		receivers int            // of a release, or of a pass that became a release: how many subscribers got the message
		tokens    scripts.Tokens // of a pass
		inherits  bool           // of a release: the heir holds the lock now
		held      bool
	}
)

// lockCall is a script call that the step asks for. The call itself carries everything that the shell needs to make the script: the state may have
// changed by the time the script is made or repeated.
type lockCall struct {
	do      callKind
	address *lease.Address
	state   *State        // the state that made the call, if that state is a member of a group
	terms   scripts.Terms // the script's parameters: for an extend, Lease is the new TTL
	changes int           // of an acquire: spare.changes when the call was made
	target  *grant        // of a callLook: the grant that was held when the call was made

	rpc.Call // the call in flight: the step sets its timing, and the shell sets the rest

	// set by the shell
	room scripts.Room
	done callDone // the result
}

type callKind uint8

const (
	// The main calls. A state has at most one of them in flight, and recognizes its result by the pointer to the call.
	callAcquire callKind = iota
	callPass
	callRelease
	// These calls run beside the main call.
	callOrphan // a release in the background
	callExtend
	callLook // asks whether Redis still has a grant
)

// lockCalls keeps answered main calls for reuse. Without reuse, calls would be half of the memory that an acquire and its release allocate.
var lockCalls = sync.Pool{New: func() any { return new(lockCall) }}

// ScriptCall returns the script of a call, with its arguments.
func (c *lockCall) ScriptCall(site *scripts.Site, _ wait.ServerTime) scripts.Call {
	kind, raw := c.address.Kind, c.address.Raw
	c.terms.Room, c.terms.Arguments = &c.room, &c.address.Arguments
	switch c.do {
	case callAcquire:
		return kind.Acquire(site, raw, c.terms)
	case callPass:
		return kind.Pass(site, raw, c.terms)
	case callRelease, callOrphan:
		return kind.Release(site, raw, c.terms)
	case callExtend:
		return kind.Renew(site, []string{raw}, []string{c.terms.Grant}, c.terms.Lease)
	case callLook:
		return kind.Look(raw, c.terms.Grant)
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
func (c *lockCall) Answered(m *rpc.Result) (message, notice any) {
	done := &c.done
	*done = callDone{call: c, class: m.Class, err: m.Err, sent: m.Sent}
	var err error
	switch {
	case m.Class != scripts.Done: // there is no result
	case c.do == callAcquire:
		done.acquired, err = scripts.ReadAcquired(m.Reply, c.terms.Grant)
		done.unacked = m.Unacked
	case c.do == callRelease, c.do == callOrphan:
		var released scripts.Released
		released, err = scripts.ReadReleased(m.Reply)
		done.receivers, done.held = released.Receivers, released.Held
		done.inherits = c.terms.Heir != "" && released.Heir == c.terms.Heir
	case c.do == callPass:
		var passed scripts.Passed
		passed, err = scripts.ReadPassed(m.Reply, c.terms.Grant)
		done.held, done.tokens, done.receivers = passed.Held, passed.Tokens, passed.Receivers
	case c.do == callExtend:
		var gone []int
		gone, err = scripts.ReadRenewed(m.Reply, []string{c.terms.Grant})
		done.held = len(gone) == 0
	case c.do == callLook:
		done.held, err = scripts.ReadLooked(m.Reply)
	}
	if err != nil {
		done.class, done.err = scripts.Unknown, err
		if errors.Is(err, protocol.ErrForeignKey) { // the reply is valid, but not about a lock
			done.class = scripts.Rejected
		}
	}
	return done, nil
}
