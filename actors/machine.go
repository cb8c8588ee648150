package actors

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/scripts"
)

// machine is the pure part of the actor of a name: messages and time go in, effects come out. There are three: lockState for a lock with
// one contender and one grant at a time, hall for several of them, countState for counters. The shell carries out the effects.
type machine interface {
	step(now time.Duration, message any) []effect
	distrust(now time.Duration) []effect // starts over after a panic
	idle() bool                          // nothing would be missed if the actor stopped
	forget(r *Request)                   // somebody else has answered it
	room() *[]effect                     // where the effects of the next step go
	start(self lease.Ref)

	// of the actor message API, which counters have no part in
	waitingOf(requester lease.Ref, id uint64) *Request
	requesters() []lease.Ref // those that wait or hold; some more than once
	leased() bool            // somebody has a lease
}

// call is a script call that a machine asks for.
type call interface {
	script(site *scripts.Site, m redisnode.Nodes) scripts.Call
	carrier() *rpc.Call // the call on its way: the machine sets its timing, the shell the rest
	acquires() bool     // it makes a grant, which replicas may have to acknowledge
	// answered turns a raw result into the message that the machine understands, and into what the actors of the same name's other kinds
	// should know; nil: nothing.
	answered(m *rpc.Result) (message, news any)
	recycle() // the machine does not know it any more
}

func newMachine(policy, spinning *Policy, address *lease.Address) machine {
	switch kind := address.Kind; {
	case kind.Counting != nil:
		return newCountState(policy, address)
	case kind.Many():
		many := &hall{}
		many.init(policy, address)
		return many
	case kind.Spins:
		policy = spinning
	}
	one := &lockState{}
	one.init(policy, address)
	return one
}

// What a step needs for a moment, and a call until it is answered: it would be half of what a pair allocates.
var (
	effectBuffers = sync.Pool{New: func() any { return new([]effect) }}
	lockCalls     = sync.Pool{New: func() any { return new(lockCall) }}
)
