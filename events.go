package holdfast

import "github.com/holdfast-go/holdfast/protocol"

// Event reports something that is not the result of any call; see Options.OnEvent. Use a type switch over the types below. An event's method
// Lock returns the name of the lock concerned, or "" if the event is not about one lock. See [protocol.Event].
type Event = protocol.Event

// LossReason says why a lease ended without a release. It is a string. A switch over it needs a default, because values may be added. See
// [protocol.LossReason].
type LossReason = protocol.LossReason

// The reasons why a lease ends without a release.
const (
	LossExpired       = protocol.LossExpired       // the lease was not renewed before its local deadline, or a fixed lease has passed its end: "expired"
	LossAtMost        = protocol.LossAtMost        // the lease has passed the end that WithAtMost set: "at most"
	LossDeleted       = protocol.LossDeleted       // Redis no longer has the lock (deleted, evicted, flushed, a failover): "deleted"
	LossForceReleased = protocol.LossForceReleased // ForceRelease was called in this runtime; other runtimes report LossDeleted: "force-released"
	LossReleasedByID  = protocol.LossReleasedByID  // a permit was released by ReleaseID in this runtime: "released by its ID"
	LossPanicked      = protocol.LossPanicked      // a bug in the runtime made the lock's state unreliable: "an actor panicked"
	LossClosed        = protocol.LossClosed        // Close has ended the lease; Trace.Lost reports this, but no event does: "closed"
)

// The types of events. Each is a struct.
type (
	// LeaseLost reports that a lease ended without a release. Before the event, the lease has reported the loss to its holder. Fields: Kind, Name, ID
	// (the owner field in Redis), Reason and Held (for how long). See [protocol.LeaseLost].
	LeaseLost = protocol.LeaseLost
	// Waiting reports that an acquire has waited longer than Options.SlowWait. Fields: Kind, Name, Waited, Holder (the owner field in Redis),
	// Local (this runtime holds the lock) and Ahead (acquires of this runtime that are served first). See [protocol.Waiting].
	Waiting = protocol.Waiting
	// LeaseLeaked reports that the program dropped a lease without releasing it. The runtime releases it now. A fixed lease is not released: it expires.
	// Fields: Kind, Name, ID and Since, the time of the acquire. See [protocol.LeaseLeaked].
	LeaseLeaked = protocol.LeaseLeaked
	// RenewFailed reports that a renewal failed. The renewal is retried until the lease's deadline. Fields: Kind, Name, ID, Left (the time
	// until the deadline) and Err. See [protocol.RenewFailed].
	RenewFailed = protocol.RenewFailed
	// Unconfirmed reports that the runtime gave up on a release, a count-down or the undoing of an acquire, so permits or a count-down may be missing.
	// Fields: Name, Do (what was given up) and Err. See [protocol.Unconfirmed].
	Unconfirmed = protocol.Unconfirmed
	// Reconnected reports that the runtime subscribed again after the connection for wake-ups broke, or after Redis had refused a subscription.
	// The waiters concerned retry. Field: the number of Channels. See [protocol.Reconnected].
	Reconnected = protocol.Reconnected
	// SubscribeRefused reports that Redis refuses the subscription to a lock's channel. The lock's waiters retry once a second. Fields: Name,
	// Channel and Err. See [protocol.SubscribeRefused].
	SubscribeRefused = protocol.SubscribeRefused
	// QueueLost reports that a waiter of a fair lock was removed from the queue in Redis. The waiter queues again, at the end. Fields: Name and ID (the
	// owner field that the waiter had in the queue). See [protocol.QueueLost].
	QueueLost = protocol.QueueLost
	// ActorPanicked reports a panic in an actor of the runtime, in a hook of the Redis client, or in an actor that uses Lock.PID.
	// Fields: Name, Value (of the panic) and Stack. See [protocol.ActorPanicked].
	ActorPanicked = protocol.ActorPanicked
	// RequestDropped reports that a message to Lock.PID could not be answered. Fields: Name and Reason. See [protocol.RequestDropped].
	RequestDropped = protocol.RequestDropped
	// RequesterBlocked reports that an actor that uses Lock.PID has blocked the delivery of a message for a second or two. Fields: Requester
	// (the actor) and Waiting, the number of messages behind the blocked one. See [protocol.RequesterBlocked].
	RequesterBlocked = protocol.RequesterBlocked
	// CallbackPanicked reports that Options.OnEvent, ElectionOptions.OnLeader or a function of Options.Trace panicked. A panic of OnEvent is
	// only logged. Field: Value. See [protocol.CallbackPanicked].
	CallbackPanicked = protocol.CallbackPanicked
	// EventsDropped reports that Options.OnEvent was too slow, so events were dropped. Field: Count. See [protocol.EventsDropped].
	EventsDropped = protocol.EventsDropped
)
