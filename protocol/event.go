package protocol

import (
	"fmt"
	"time"
)

// Event is something worth knowing that no caller is waiting for. Events are small values; Lock names the lock concerned,
// "" when an event is not about one lock.
type Event interface{ Lock() string }

// LeaseLost says that a lease ended without a release. The holder has been told through its Lease before.
type LeaseLost struct {
	Name   string
	ID     string // owner field in Redis
	Reason string // "expired", "gone from Redis", "force-released"
}

// LeaseLeaked says that a lease was dropped: it was never released, and nobody has it any more, nor a channel or a context by which its
// end would be noticed. It has been released, unless it has a fixed length: then it ends by itself.
type LeaseLeaked struct {
	Name  string
	Kind  Kind      // of a multi lock: its members', "" if they are of several
	ID    string    // owner field in Redis
	Since time.Time // when it was acquired
}

// RenewFailed says that renewing a lease failed; it is tried again until the lease's deadline.
type RenewFailed struct {
	Name string
	ID   string
	Left time.Duration // until the lease is lost
	Err  error
}

// Unconfirmed says that nobody knows whether a request was carried out that gives something back or takes something without an owner:
// Redis did not answer for so long that it was given up. Permits may be missing, or a count-down.
type Unconfirmed struct {
	Name string
	Do   string // "release", "count down", "undo" (of an acquire), ...
	Err  error
}

// Reconnected says how many channels are subscribed to again, after the connection for unlock messages broke or Redis refused to
// subscribe. Everybody who waits on them tries again.
type Reconnected struct{ Channels int }

// SubscribeRefused says that Redis refuses to subscribe to a lock's channel. Until it is subscribed to, releases do not wake the waiters
// of this process, which ask once a second. The runtime repeats the subscription about once a second and reports the refusal once; a
// refusal that may pass is reported after a second or two.
type SubscribeRefused struct {
	Name    string
	Channel string
	Err     error
}

// QueueLost says that a waiter of a fair lock was thrown out of the queue, by a client whose clock is ahead or because this
// process did not run for a while. It stands at the end of the queue now.
type QueueLost struct {
	Name string
	ID   string // owner field in Redis
}

// ActorPanicked says that a message made an actor panic. The request it was handling was refused, the lock reads its state anew.
type ActorPanicked struct {
	Name  string
	Value any
	Stack string
}

// RequestDropped says that a message to a lock could not be answered: it is none of the API, or has no sender that could be told.
type RequestDropped struct {
	Name   string
	Reason string
}

// RequesterBlocked says that telling an actor of the answer to its request has not come back for a second: its dispatcher or its
// mailbox keeps the sender. It is told on as soon as it lets go; nobody else waits for it.
type RequesterBlocked struct {
	Requester string // ID of the actor's PID
	Waiting   int    // what else there is to tell
}

// CallbackPanicked says that Options.OnEvent panicked.
type CallbackPanicked struct{ Value any }

// EventsDropped says that Options.OnEvent was too slow and so many events were not delivered.
type EventsDropped struct{ Count int }

// Lock is the name of the lock concerned.
func (e LeaseLost) Lock() string { return e.Name }

// Lock is the name of the lock concerned.
func (e LeaseLeaked) Lock() string { return e.Name }

// Lock is the name of the lock concerned.
func (e RenewFailed) Lock() string { return e.Name }

// Lock is the name concerned.
func (e Unconfirmed) Lock() string { return e.Name }

// Lock is "": all locks are concerned.
func (e Reconnected) Lock() string { return "" }

// Lock is the name of the lock concerned.
func (e SubscribeRefused) Lock() string { return e.Name }

// Lock is the name of the lock concerned.
func (e QueueLost) Lock() string { return e.Name }

// Lock is the name of the lock concerned.
func (e ActorPanicked) Lock() string { return e.Name }

// Lock is the name of the lock concerned.
func (e RequestDropped) Lock() string { return e.Name }

// Lock is "": an actor may have asked for several.
func (e RequesterBlocked) Lock() string { return "" }

// Lock is "": no lock is concerned.
func (e CallbackPanicked) Lock() string { return "" }

// Lock is "": no lock is concerned.
func (e EventsDropped) Lock() string { return "" }

func (e LeaseLost) String() string {
	return fmt.Sprintf("lock %q: lease %s lost: %s", e.Name, e.ID, e.Reason)
}

func (e LeaseLeaked) String() string {
	return fmt.Sprintf("lock %q: lease %s was dropped without a release, it was acquired at %s", e.Name, e.ID, e.Since.Format(time.RFC3339))
}

func (e RenewFailed) String() string {
	return fmt.Sprintf("lock %q: renewing %s failed, %v left: %v", e.Name, e.ID, e.Left.Round(time.Millisecond), e.Err)
}

func (e Unconfirmed) String() string {
	return fmt.Sprintf("%q: %s was given up without being confirmed: %v", e.Name, e.Do, e.Err)
}

func (e Reconnected) String() string {
	return fmt.Sprintf("subscribed anew to %d channels, their waiters try again", e.Channels)
}

func (e SubscribeRefused) String() string {
	return fmt.Sprintf("lock %q: Redis refuses to subscribe to %s, its waiters ask once a second: %v", e.Name, e.Channel, e.Err)
}

func (e QueueLost) String() string {
	return fmt.Sprintf("lock %q: waiter %s lost its place in the queue and is at the end of it now", e.Name, e.ID)
}

func (e ActorPanicked) String() string {
	return fmt.Sprintf("lock %q: an actor panicked: %v", e.Name, e.Value)
}

func (e RequestDropped) String() string {
	return fmt.Sprintf("lock %q: request dropped: %s", e.Name, e.Reason)
}

func (e RequesterBlocked) String() string {
	return fmt.Sprintf("actor %s blocks whoever tells it something, %d more messages wait", e.Requester, e.Waiting)
}

func (e CallbackPanicked) String() string {
	return fmt.Sprintf("Options.OnEvent panicked: %v", e.Value)
}

func (e EventsDropped) String() string {
	return fmt.Sprintf("Options.OnEvent is too slow: %d events dropped", e.Count)
}
