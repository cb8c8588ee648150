package lease

import (
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

// Hold is one local lease.
//
// A hold ends only once. The holder ends it with Claim, and then sends its release request; the lock actor ends it with Lose. If both calls happen,
// the first one counts. After a Claim, the lock actor neither stops nor gets another name until the release request has arrived. So the request can
// be sent directly to the lock actor, not through the registry.
type Hold struct {
	// set by the machine before the hold is delivered
	Grant  *Grant
	Serial uint64
	Token  int64 // fencing token, or 0 if the kind has none
	Since  time.Duration
	Owner  protocol.Owner
	Place  int // where the machine has listed the hold; only the machine uses it

	// set by wait.Requesters
	Requester Ref // the actor that asked by message, or nil if a goroutine has asked

	Ending
}

// Address is the lock that is held.
func (h *Hold) Address() *Address { return h.Grant.Address }

// Until returns the local deadline, as an instant of the runtime's clock. It is 0 once the hold has ended, even if the grant continues with the
// next holder.
func (h *Hold) Until() time.Duration {
	if h.over.Load() {
		return 0
	}
	return h.Grant.Until()
}

// Valid reports whether the lease is held at this instant.
func (h *Hold) Valid(now time.Duration) bool {
	return !h.over.Load() && h.Grant.Left(now) > 0
}

// Fixed reports whether the lease was asked for with a fixed length.
func (h *Hold) Fixed() bool { return !h.Grant.Watched }

// Claim ends the hold for its holder. It returns false if the hold had ended before.
func (h *Hold) Claim() bool { return h.End(protocol.ErrNotHeld, "it was released before") }

// Lose is called when the lock's actor ends the hold. It returns false if the hold had ended before. If the holder ended it, the holder's request to
// release is on its way to the actor.
func (h *Hold) Lose(err error, why protocol.LossReason) bool { return h.End(err, string(why)) }

// Holder returns a name of the holder for people to read: its owner, or the id of its grant if the hold has no owner.
func (h *Hold) Holder() string {
	if h.Owner.IsZero() {
		return h.Grant.ID
	}
	return h.Owner.String()
}
