package wait

import "github.com/holdfast-go/holdfast/actors/lease"

// The messages to a machine, beside *Request, the answers of its calls and those of the subscriber.
type (
	// CancelRequest ends the waiting of a request.
	CancelRequest struct {
		Request *Request
		Cause   error
	}
	// Alarm says that the instant set by the last alarm effect has come.
	Alarm struct{}
	// Freed says which grants this process has ended in Redis, without asking their holders.
	Freed struct {
		Grants []string
		Reason string
	}
	// TryRetire asks an idle lock actor to stop.
	TryRetire struct{}
	// Close tells how far the runtime has come with its end.
	Close struct{ Stage Stage }
	// RequesterGone says that an actor which waits here or holds leases has terminated. Replaced: another one has its name already,
	// and some of what it asked for may be meant.
	RequesterGone struct {
		Requester lease.Ref
		Replaced  bool
	}
)

// LookAround asks for a look: a group knows who wants the lock, and a counter that it may have ended permits.
type LookAround struct{}

// Why this process has ended a grant in Redis.
const (
	ForceReleased   = "force-released"
	ReleasedByItsID = "released by its ID"
)

// The subscriber's messages to the actor of a name.
type (
	// ChannelReady says that the subscription is in place: what was published before may have been missed. Among is how many channels
	// were subscribed to again together.
	ChannelReady struct {
		Channel string
		Among   int
	}
	// ChannelMessage says that somebody released the lock, and how often since the last one.
	ChannelMessage struct {
		Channel  string
		Releases int
	}
)
