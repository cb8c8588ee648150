package holdfast

import "github.com/holdfast-go/holdfast/protocol"

// Event reports something that is not the result of any call; see Options.OnEvent. Use a type switch.
type Event = protocol.Event

// LossReason says why a lease ended without a release. A switch over it needs a default: values may be added.
type LossReason = protocol.LossReason

// The reasons.
const (
	LossExpired       = protocol.LossExpired       // not renewed before its local deadline, or the end of a fixed lease: "expired"
	LossAtMost        = protocol.LossAtMost        // the end that WithAtMost set: "at most"
	LossDeleted       = protocol.LossDeleted       // Redis no longer has it (deleted, evicted, flushed, a failover): "deleted"
	LossForceReleased = protocol.LossForceReleased // by ForceRelease in this runtime; others find it deleted: "force-released"
	LossReleasedByID  = protocol.LossReleasedByID  // a permit, by ReleaseID in this runtime: "released by its ID"
	LossPanicked      = protocol.LossPanicked      // the lock's state was no longer to be trusted: "an actor panicked"
	LossClosed        = protocol.LossClosed        // by Close, which no event reports, only Trace.Lost: "closed"
)

// The types of events.
type (
	// LeaseLost: a lease ended without a release. The lease itself reported it to its holder first.
	LeaseLost = protocol.LeaseLost
	// Waiting: an acquire has waited longer than Options.SlowWait.
	Waiting = protocol.Waiting
	// LeaseLeaked: a lease was dropped without a release. It has now been released, unless it is a fixed lease, which just expires.
	LeaseLeaked = protocol.LeaseLeaked
	// RenewFailed: a renewal failed; it is retried until the lease's deadline.
	RenewFailed = protocol.RenewFailed
	// Unconfirmed: the runtime gave up on a release, a count-down or the undoing of an acquire; permits or a count-down may be
	// missing.
	Unconfirmed = protocol.Unconfirmed
	// Reconnected: the connection for unlock messages was re-established; all waiters retry.
	Reconnected = protocol.Reconnected
	// SubscribeRefused: Redis refuses to subscribe to a lock's channel; its waiters retry once a second.
	SubscribeRefused = protocol.SubscribeRefused
	// QueueLost: a waiter of a fair lock was removed from the queue, and is now at its end.
	QueueLost = protocol.QueueLost
	// ActorPanicked: an actor panicked on a message. The request was refused, and the lock reads its state again.
	ActorPanicked = protocol.ActorPanicked
	// RequestDropped: a message to a lock could not be answered.
	RequestDropped = protocol.RequestDropped
	// RequesterBlocked: delivering an answer to an actor has been blocked for a second.
	RequesterBlocked = protocol.RequesterBlocked
	// CallbackPanicked: Options.OnEvent panicked, which is only logged, or a function of Options.Trace.
	CallbackPanicked = protocol.CallbackPanicked
	// EventsDropped: Options.OnEvent was too slow, so events were dropped.
	EventsDropped = protocol.EventsDropped
)
