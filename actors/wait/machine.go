package wait

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
)

// Machine is the pure part of the actor of a name: messages and time go in, effects come out. The shell carries out the effects.
type Machine interface {
	Step(now time.Duration, message any) []Effect
	Distrust(now time.Duration) []Effect // starts over after a panic
	Idle() bool                          // nothing would be missed if the actor stopped
	Forget(r *Request)                   // somebody else has answered it
	Room() *[]Effect                     // where the effects of the next step go
	Start(self lease.Ref)

	// of the actor message API, which counters have no part in
	WaitingOf(requester lease.Ref, id uint64) *Request
	Requesters() []lease.Ref // those that wait or hold; some more than once
	Leased() bool            // somebody has a lease
}
