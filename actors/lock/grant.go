package lock

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// grant is a lease.Grant with what only the machine knows about it.
type grant struct {
	lease.Grant
	state          *State
	plain          string        // runtimeUUID:number, from which the id is made
	duplicateUntil time.Duration // a delayed duplicate of the acquire may run until this instant
	terms          wait.Terms
	tokens         scripts.Tokens // fencing tokens that no holder has had yet
	token          int64          // fencing token of the present holder
	longest        time.Duration  // the longest lease that Redis was asked for
	lent           bool           // another grant uses the same number (plain)
	vacant         bool           // the grant had no holder when its release or pass began: it lingered until then
	lasting        bool           // another grant may keep the lock's key in Redis for longer than this grant lasts
}

// whyOver returns the loss reason of a grant whose deadline has passed.
func (g *grant) whyOver() protocol.LossReason {
	if g.Final() {
		return protocol.LossAtMost
	}
	return protocol.LossExpired
}

// sound reports whether the grant may be handed on to another waiter: no renewal has failed, and more than a renewal interval is left.
// Otherwise the next holder could lose the lease right after getting it.
func (g *grant) sound(now time.Duration) bool {
	return !g.Suspect.Load() && g.Left(now) > g.Lease/3
}

// lacks reports whether a re-entry or an extend asks for more time than Redis has granted.
func (g *grant) lacks(now time.Duration, r *wait.Request) bool {
	return !g.Watched && r.Lease > g.Left(now) || r.AtLeast > max(g.Left(now), g.Missing(now))
}

// is reports whether `shared` is the lease.Grant inside this grant. Other goroutines know a grant only by its lease.Grant.
func (g *grant) is(shared *lease.Grant) bool { return g != nil && &g.Grant == shared }

// stateOf returns the machine that made a grant.
func stateOf(shared *lease.Grant) *State { return shared.Part.(*grant).state }
