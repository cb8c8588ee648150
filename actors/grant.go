package actors

import (
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/scripts"
	"github.com/holdfast-go/holdfast/timerwheel"
)

// Grant is one acquisition in Redis. The lock actor makes it and ends it; the watchdog moves its deadline; holders read the deadline.
type Grant struct {
	// fixed at construction
	address *Address
	plain   string        // runtimeUUID:number
	id      string        // made of that: the field in the lock's hash
	lease   time.Duration // what every renewal sets
	watched bool          // renewed by the watchdog; otherwise a fixed lease
	lock    *actor.PID    // the lock actor, to be told of trouble
	home    *lockState    // its part that has the grant

	// owned by the lock actor
	stale   time.Duration  // until then a copy of its acquire may still run
	tokens  scripts.Tokens // those that no holder has had
	token   int64          // of the present holder
	longest time.Duration  // the longest lease that Redis was asked for
	lent    bool           // a grant beside this one has its number
	lasting bool           // one beside it may keep the key in Redis for longer

	// deadline is the instant from which the lease counts as lost, 0 once the grant is over. Whoever moves it does so by
	// compare-and-swap from what it saw, so a late renewal cannot revive a grant that has ended.
	deadline atomic.Int64
	// suspect is set between a failed renewal and the next good one: nothing is handed on meanwhile.
	suspect atomic.Bool

	// tended is set once an actor of the user holds a lease on it: each renewal is an occasion to see whether it still lives.
	tended atomic.Bool

	kept  atomic.Bool              // the watchdog looks after it
	timer timerwheel.Timer[*Grant] // the wheel's; next renewal, or the end of a fixed lease
}

// margin is how much earlier than the server a holder counts its lease as over: clock rates may differ by 1 %, and 2 ms are
// for rounding. From the Redis documentation on distributed locks (clock drift).
func margin(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// deadlineOf is the local deadline of a lease that Redis granted or renewed by a call sent at this instant.
func deadlineOf(sent, lease time.Duration) time.Duration { return sent + lease - margin(lease) }

func newGrant(s *lockState, t trial, deadline time.Duration) *Grant {
	g := &Grant{
		address: s.address, plain: t.plain, id: t.id, lease: t.lease, watched: t.watched, stale: t.stale, lock: s.self, home: s, longest: t.lease,
	}
	g.timer.Value = g
	g.deadline.Store(int64(deadline))
	return g
}

func (g *Grant) until() time.Duration { return time.Duration(g.deadline.Load()) }

// left is how long the lease lasts from now on; 0 or less: it is over.
func (g *Grant) left(now time.Duration) time.Duration { return g.until() - now }

// over ends the grant: no renewal moves its deadline again, and no holder of it is valid.
func (g *Grant) over() { g.deadline.Store(0) }

// extend moves the deadline after a renewal, unless the grant has ended or its deadline has passed before the answer came.
func (g *Grant) extend(now, deadline time.Duration) bool {
	for {
		old := g.deadline.Load()
		if old == 0 || int64(now) >= old {
			return false
		}
		if g.deadline.CompareAndSwap(old, int64(deadline)) {
			return true
		}
	}
}

// Address names one lock: its kind, the user's name for it, and the key in Redis after Options.NameMapper.
type Address struct {
	Kind *scripts.Kind
	Name string
	Raw  string
	part uint16 // of a cluster, in which all of its keys are; 0 on a single server
}
