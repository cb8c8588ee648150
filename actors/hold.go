package actors

import (
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/protocol"
)

// Hold is one local lease. It is embedded in what the user holds, so that an acquire allocates once.
//
// Exactly one side ends it: the holder by claiming it for a release, or the lock actor by losing it. A claimed hold keeps the
// lock actor alive until the release message has arrived, which is why that message may go straight to the lock actor.
type Hold struct {
	// set by the lock actor before the grant is delivered
	grant     *Grant
	serial    uint64
	token     int64 // fencing token; 0: none
	since     time.Duration
	owner     protocol.Owner
	requester *actor.PID // of the actor message API; nil for a goroutine

	state atomic.Uint32

	Ending
}

const (
	holdOpen    = iota // not granted yet, or held
	holdClaimed        // released by its holder
	holdLost
)

// ID is the owner field in Redis.
func (h *Hold) ID() string { return h.grant.id }

// Token is the fencing token, 0 if the kind has none.
func (h *Hold) Token() int64 { return h.token }

// Address is the lock that is held.
func (h *Hold) Address() *Address { return h.grant.address }

// Until is the local deadline, as an instant of the runtime's clock; 0: the hold has ended. Its grant may go on, with the next holder.
func (h *Hold) Until() time.Duration {
	if h.state.Load() != holdOpen {
		return 0
	}
	return h.grant.until()
}

// Valid reports whether the lease is held at this instant.
func (h *Hold) Valid(now time.Duration) bool {
	return h.state.Load() == holdOpen && h.grant.left(now) > 0
}

// Fixed reports whether the lease was asked for with a fixed length.
func (h *Hold) Fixed() bool { return !h.grant.watched }

// claim is the holder's way to end the hold; false when it has ended before.
func (h *Hold) claim() bool {
	if !h.state.CompareAndSwap(holdOpen, holdClaimed) {
		return false
	}
	h.End(protocol.ErrNotHeld, "it was released before")
	return true
}

// lose is the lock actor's way to end the hold; false when its holder has claimed it and the release is on its way.
func (h *Hold) lose(err error, why string) bool {
	if !h.state.CompareAndSwap(holdOpen, holdLost) {
		return false
	}
	h.End(err, why)
	return true
}
