package holdfast

import "github.com/holdfast-go/holdfast/protocol"

// Event is something worth knowing that no caller is waiting for; see Options.OnEvent. Use a type switch.
type Event = protocol.Event

// The events.
type (
	// LeaseLost: a lease ended without a release. Its holder has been told before.
	LeaseLost = protocol.LeaseLost
	// LeaseLeaked: a lease was dropped without a release; it has been released, unless it has a fixed length.
	LeaseLeaked = protocol.LeaseLeaked
	// RenewFailed: renewing failed; it is tried again until the lease's deadline.
	RenewFailed = protocol.RenewFailed
	// Unconfirmed: a release, a count-down or the undoing of an acquire was given up; permits or a count-down may be missing.
	Unconfirmed = protocol.Unconfirmed
	// Reconnected: the connection for unlock messages is back; all who wait try again.
	Reconnected = protocol.Reconnected
	// SubscribeRefused: Redis refuses to subscribe to a lock's channel; its waiters ask once a second.
	SubscribeRefused = protocol.SubscribeRefused
	// QueueLost: a waiter of a fair lock was thrown out of the queue, and stands at its end now.
	QueueLost = protocol.QueueLost
	// ActorPanicked: a message made an actor panic; its request was refused, the lock reads its state anew.
	ActorPanicked = protocol.ActorPanicked
	// RequestDropped: a message to a lock could not be answered.
	RequestDropped = protocol.RequestDropped
	// RequesterBlocked: telling an actor of the answer to its request does not come back.
	RequesterBlocked = protocol.RequesterBlocked
	// CallbackPanicked: Options.OnEvent panicked. Logged only.
	CallbackPanicked = protocol.CallbackPanicked
	// EventsDropped: Options.OnEvent was too slow.
	EventsDropped = protocol.EventsDropped
)
