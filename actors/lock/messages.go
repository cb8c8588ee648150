package lock

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// The messages of a lock machine, beside those of packages wait and lease.
type (
	// woken says when to try again: the group has received a release message, or knows of a free grant.
	woken struct{ at time.Duration }
	// inherited says that a release of this process has made the first contender in Redis' queue the holder. id is that contender's grant;
	// the release was sent at the instant sent.
	inherited struct {
		id   string
		sent time.Duration
	}
	// promoted ends a contender's standby. If called is set, the contender asks at once: it is probably the first in Redis' queue, or the holder.
	promoted struct{ called bool }
	// callDone is the result of a script call of this lock.
	callDone struct {
		call  *lockCall
		class scripts.Class
		err   error
		sent  time.Duration // the instant before the call was sent

		acquired  scripts.Acquired
		unacked   error          // of an acquire: the reason why too few replicas have acknowledged it
		receivers int            // of a release, or of a pass that turned into one: how many subscribers got the message
		tokens    scripts.Tokens // of a pass
		inherits  bool           // of a release: the heir holds the lock now
		held      bool
		freed     []string        // by a force-release: the grants that held the lock
		state     *protocol.State // of an inspect
	}
)

// news returns the message for the actors that the same name has in other families, after a force-release; nil: no message. The force-release may
// have ended grants of those actors as well, and they do not get its result.
func (m *callDone) news() any {
	switch {
	case m.class == scripts.Unknown:
		return wait.LookAround{}
	case len(m.freed) > 0:
		return wait.Freed{Grants: m.freed, Reason: protocol.LossForceReleased}
	}
	return nil
}

// lockCall is a script call that the step asks for. It has everything that the shell needs to make the script, because the state may have
// changed by the time the script is made or repeated.
type lockCall struct {
	do       callKind
	address  *lease.Address
	home     *State // the member of a group that made the call
	grant    string
	from     string        // of a pass: the grant that ends
	ends     bool          // of a pass: it ends a turn, so other processes go first
	idlers   int           // of a pass that ends a turn: how many subscribers do not want the lock
	lease    time.Duration // of acquire, pass and extend: the TTL
	alone    string        // of an acquire: the grant with which its owner holds the lock alone
	channel  string        // of an acquire: scripts.Terms.Channel; empty: a refusal counts no subscribers
	try      bool          // of an acquire: do not enter Redis' queue
	standing bool          // of an acquire: it should be in Redis' queue already
	news     int           // of an acquire: spare.news when the call was made
	keep     time.Duration // of a release: how long the lock stays taken after Redis has executed the release
	heir     *pendingGrant // of a release: this process's first contender in Redis' queue
	request  *wait.Request // of a side call: the request that asked for it
	target   *grant        // of a look: the grant that was held when the call was made
	again    bool          // of a side call: the call is a repeat, because its first copy reached Redis too late

	rpc.Call // the call in flight: the step sets its timing, the shell the rest

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
	// The others.
	callOrphan // a release in the background
	callExtend
	callInspect
	callForceRelease
	callLook // asks whether Redis still has a grant
)
