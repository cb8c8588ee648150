package wait

import (
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
)

// The messages to a machine, beside *Request, the results of its calls, and the watchdog's lease.Due and lease.Gone.
type (
	// CancelRequest ends the wait of a request.
	CancelRequest struct {
		Request *Request
		Cause   error
	}
	// Alarm says that the instant set by the last alarm effect has come.
	Alarm struct{}
	// Freed says which grants this process has ended in Redis without asking their holders.
	Freed struct {
		Grants []string
		Reason protocol.LossReason
	}
	// Demanded says that another process, or another kind of lock in this one, was refused a lock because of this grant. If Freed is set, it says
	// instead that the grant was released by force.
	Demanded struct {
		Grant string
		Freed bool
	}
	// DemandsMissed says that a Demanded may have been lost, because the subscription to demands was broken for a while.
	DemandsMissed struct{}
	// Close tells a machine which stage the end of the runtime has reached.
	Close struct{ Stage Stage }
	// RequesterGone says that an actor that waits here or holds leases has terminated. If Replaced is set, another actor has the same name by
	// now, and some of the requests may be that actor's.
	RequesterGone struct {
		Requester lease.Ref
		Replaced  bool
	}
	// LookAround asks a machine to check whether Redis still has its grants with a fixed lease, for example because an operation may have ended some
	// of them.
	LookAround struct{}
)

// The subscriber's messages to the actor of a name.
type (
	// ChannelReady says that the channel is subscribed to. Messages that were published before may have been missed. After a reconnection, Among is
	// the number of channels that share the connection; otherwise it is 0.
	ChannelReady struct {
		Channel string
		Among   int
	}
	// ChannelMessage says that the lock was released, and how often since the last ChannelMessage.
	ChannelMessage struct {
		Channel  string
		Releases int
		Texts    map[string]struct{} // of the demand channel: the messages, each with a grant and the key of its lock
	}
)
