package actors

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// machine is the pure part of the actor of a name: messages and time go in, effects come out. There are three: lockState for a lock with
// one contender and one grant at a time, hall for several of them, countState for counters. The shell carries out the effects.
type machine interface {
	step(now time.Duration, message any) []wait.Effect
	distrust(now time.Duration) []wait.Effect // starts over after a panic
	idle() bool                               // nothing would be missed if the actor stopped
	forget(r *wait.Request)                   // somebody else has answered it
	room() *[]wait.Effect                     // where the effects of the next step go
	start(self lease.Ref)

	// of the actor message API, which counters have no part in
	waitingOf(requester lease.Ref, id uint64) *wait.Request
	requesters() []lease.Ref // those that wait or hold; some more than once
	leased() bool            // somebody has a lease
}

func newMachine(policy, spinning *wait.Policy, address *lease.Address) machine {
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

// What a step needs for a moment: it would be a part of what a pair allocates.
var effectBuffers = sync.Pool{New: func() any { return new([]wait.Effect) }}
