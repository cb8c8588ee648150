package lock

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// The messages of a lock actor, beside *Request and the user's protocol messages.
type (
	// woken says when to try again, after a release that the group has heard of.
	woken struct{ at time.Duration }
	// inherited says that a release of this process, sent at this instant, has made a standing contender the holder.
	inherited struct {
		id   string
		sent time.Duration
	}
	// promoted ends a contender's standby: it is the first of its process now.
	promoted struct{}
	// callDone is the answer of a script call of this lock.
	callDone struct {
		call  *lockCall
		class scripts.Class
		err   error
		sent  time.Duration // the instant before the call was sent

		acquired  scripts.Acquired
		unacked   error          // of an acquire: not enough replicas have it
		receivers int            // of a release, or of a pass that became one
		tokens    scripts.Tokens // of a pass
		inherits  bool           // of a release: the heir has the lock
		held      bool
		freed     []string // by a force-release: the grants that held the lock
		state     protocol.State
	}
)

// news is what holders of the same name by other kinds learn of a force-release; nil: nothing.
func (m *callDone) news() any {
	switch {
	case m.call.do != callForceRelease:
		return nil
	case m.class == scripts.Unknown:
		return wait.LookAround{}
	case len(m.freed) > 0:
		return wait.Freed{Grants: m.freed, Reason: wait.ForceReleased}
	}
	return nil
}

// lockCall is a script call that the step asks for.
type lockCall struct {
	do       callKind
	address  *lease.Address
	home     *State // the part of a group that asked
	grant    string
	from     string        // of a pass: the grant that ends
	ends     bool          // of a pass: it ends a turn, and others go first
	idlers   int           // and so many of those who are told of that want nothing
	lease    time.Duration // of acquire, pass and extend
	alone    string        // of an acquire: the grant by which its owner holds the lock alone
	holder   bool          // of an acquire: name the holder when busy
	try      bool          // of an acquire: do not stand in Redis' queue
	standing bool          // of an acquire: it should stand there already
	heir     *pendingGrant // of a release: our first contender in Redis' queue
	request  *wait.Request // of a side call: who asked
	target   *grant        // of a look: the grant when it was asked
	again    bool          // of a side call: it came too late once

	rpc.Call // itself, on its way: the step sets its timing, the shell the rest

	// the shell's
	room scripts.Room
	done callDone // its answer
}

// main reports that the state has one such call on its way at a time, and knows it by its number alone.
func (c *lockCall) main() bool { return c.do <= callRelease }

type callKind uint8

const (
	callAcquire callKind = iota
	callPass
	callRelease
	callOrphan // a release in the background
	callExtend
	callInspect
	callForceRelease
	callLook // whether Redis still has a grant
)
