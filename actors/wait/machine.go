package wait

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
)

// Machine is the pure part of the actor of a name: messages and time go in, effects come out. The shell carries out the effects. A machine also
// reads the deadlines of its grants, which the watchdog moves, and takes ids and random numbers from its policy. Tests set all of these.
type Machine interface {
	Step(now time.Duration, message any) []Effect
	Distrust(now time.Duration) []Effect // starts over after a panic
	Idle() bool                          // nothing is left that ending the actor would lose
	Forget(r *Request)                   // removes a request that was answered elsewhere
	Room() *[]Effect                     // the buffer for the next step's effects; while effects are being carried out, it holds those that are left
	Start(self lease.Actor)

	// methods about actors and leases, which counters do not have
	WaitingOf(requester lease.Ref, id uint64) *Request
	Requesters() []lease.Ref // the actors that wait or hold leases; one actor may be listed more than once
	Leased() bool            // there is a local lease

	// Held returns the local leases, and the number of waiters.
	Held() (holds []*lease.Hold, waiting int)
}
