package protocol

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"
)

// Event reports something that is not the result of any call. Events are small values. Lock returns the name of the lock concerned,
// or "" when the event is not about one lock. Each event implements slog.LogValuer: its attributes are those of the log record.
type Event interface{ Lock() string }

// LeaseLost reports that a lease ended without a release. The holder has learned of the loss from its Lease before this event.
type LeaseLost struct {
	Kind   Kind
	Name   string
	ID     string // owner field in Redis
	Reason LossReason
	Held   time.Duration // time from the acquire until the runtime noticed the loss; if there are several holders, the longest time
}

// LossReason says why a lease ended without a release. A switch over it needs a default: values may be added.
type LossReason string

// The reasons.
const (
	LossExpired       LossReason = "expired"            // the lease was not renewed before its local deadline, or a fixed lease has passed its end
	LossAtMost        LossReason = "at most"            // the lease has passed the end that WithAtMost set
	LossDeleted       LossReason = "deleted"            // Redis no longer has the lease: deleted, evicted, flushed, or lost in a failover
	LossForceReleased LossReason = "force-released"     // by ForceRelease in this runtime; other runtimes report LossDeleted
	LossReleasedByID  LossReason = "released by its ID" // a permit was released by ReleaseID in this runtime
	LossPanicked      LossReason = "an actor panicked"  // a bug in the runtime made the lock's state unreliable
	LossClosed        LossReason = "closed"             // Close has ended the lease; there is no LeaseLost event for that
)

// Waiting reports, once, that an acquire has waited longer than Options.SlowWait.
type Waiting struct {
	Kind   Kind
	Name   string
	Waited time.Duration
	Holder string // owner field in Redis, as far as it is known
	Local  bool   // the holder belongs to this runtime
	Ahead  int    // acquires of this runtime that get the lock before this one
}

// LeaseLeaked reports that a lease was dropped without a release: the program refers neither to the lease nor to a channel or
// context that would report its end. The runtime releases the lease now. A fixed lease is not released: it expires.
type LeaseLeaked struct {
	Name  string
	Kind  Kind      // for a multi lock, the kind of its members; "" if their kinds differ
	ID    string    // owner field in Redis
	Since time.Time // time of the acquire
}

// RenewFailed reports that a renewal of a lease failed. The renewal is retried until the lease's deadline.
type RenewFailed struct {
	Kind Kind
	Name string
	ID   string
	Left time.Duration // time until the lease is lost
	Err  error
}

// Unconfirmed reports that the runtime gave up on a request to a semaphore or latch: Redis did not answer in time, or rejected
// the request, or the runtime closed. The request may or may not have been executed, so permits or a count-down may be missing.
type Unconfirmed struct {
	Name string
	Do   string // "release", "count down", "undo" (of an acquire), ...
	Err  error
}

// Reconnected reports to how many channels the runtime has subscribed again. It does so after the connection for unlock messages
// broke, or after Redis refused a subscription. The waiters of these channels retry.
type Reconnected struct{ Channels int }

// SubscribeRefused reports that Redis refuses the subscription to a lock's channel. Until the subscription succeeds, releases do not
// wake this process's waiters, which retry once a second. The runtime tries to subscribe again after pauses of up to a second,
// and reports the refusal once. A refusal that may be temporary is reported after a second or two.
//
// If Channel is that of an election (holdfast_leader:...), Election.Watch learns of a new leader late. If Name is "", Redis refuses the channel
// of Options.Linger, which belongs to no single lock. Until the subscription succeeds, locks of this process linger even if
// other processes want them.
type SubscribeRefused struct {
	Name    string
	Channel string
	Err     error
}

// QueueLost reports that a waiter of a fair lock was removed from the queue, because another client's clock is ahead or this process
// was paused. The waiter queues again, at the end, with a new ID.
type QueueLost struct {
	Name string
	ID   string // owner field of the lost place in Redis
}

// ActorPanicked reports a panic in an actor of the runtime, in a hook of the Redis client, or in an actor of the user to which the runtime
// sent a message. If the actor of a lock panics, the request that it was handling is refused, the leases of the lock are lost, and the
// actor reads the lock's state again.
type ActorPanicked struct {
	Name  string // "" if the panic is not about one lock
	Value any
	Stack string
}

// RequestDropped reports that a message to a lock could not be answered: it is not part of the API, has no reachable sender, or is a
// Cancel with an invalid kind or name.
type RequestDropped struct {
	Name   string // "" if unknown
	Reason string
}

// RequesterBlocked reports that delivering a message to an actor has been blocked for a second or two by its dispatcher or mailbox.
// Only messages to this actor are delayed.
type RequesterBlocked struct {
	Requester string // ID of the actor's PID
	Waiting   int    // messages that wait behind the blocked one
}

// CallbackPanicked reports that Options.OnEvent, ElectionOptions.OnLeader, or a function of Options.Trace panicked.
type CallbackPanicked struct{ Value any }

// EventsDropped reports that Options.OnEvent was too slow, and that Count events were not delivered.
type EventsDropped struct{ Count int }

// Lock returns the name of the lock concerned.
func (e LeaseLost) Lock() string { return e.Name }

// Lock returns the name of the lock concerned.
func (e Waiting) Lock() string { return e.Name }

// Lock returns the name of the lock concerned.
func (e LeaseLeaked) Lock() string { return e.Name }

// Lock returns the name of the lock concerned.
func (e RenewFailed) Lock() string { return e.Name }

// Lock returns the name concerned.
func (e Unconfirmed) Lock() string { return e.Name }

// Lock returns "": all locks are concerned.
func (e Reconnected) Lock() string { return "" }

// Lock returns the name of the lock concerned, or "" if the channel is that of Options.Linger.
func (e SubscribeRefused) Lock() string { return e.Name }

// Lock returns the name of the lock concerned.
func (e QueueLost) Lock() string { return e.Name }

// Lock returns the name of the lock concerned, or "" if the panic is not about one lock.
func (e ActorPanicked) Lock() string { return e.Name }

// Lock returns the name of the lock concerned, or "" if it is unknown.
func (e RequestDropped) Lock() string { return e.Name }

// Lock returns "": the actor may have sent requests to several locks.
func (e RequesterBlocked) Lock() string { return "" }

// Lock returns "": no lock is concerned.
func (e CallbackPanicked) Lock() string { return "" }

// Lock returns "": no lock is concerned.
func (e EventsDropped) Lock() string { return "" }

func (e LeaseLost) String() string {
	return fmt.Sprintf("lock %q: lease %s lost: %s", e.Name, e.ID, e.Reason)
}

func (e Waiting) String() string {
	return fmt.Sprintf("%s %q: an acquire has waited for %v; holder %s, %d acquires of this process are ahead",
		e.Kind, e.Name, e.Waited.Round(time.Millisecond), cmp.Or(e.Holder, "unknown"), e.Ahead)
}

func (e LeaseLeaked) String() string {
	return fmt.Sprintf("lock %q: lease %s, acquired at %s, was dropped without a release", e.Name, e.ID, e.Since.Format(time.RFC3339))
}

func (e RenewFailed) String() string {
	return fmt.Sprintf("lock %q: renewing %s failed, %v left: %v", e.Name, e.ID, e.Left.Round(time.Millisecond), e.Err)
}

func (e Unconfirmed) String() string {
	return fmt.Sprintf("%q: %s was given up without being confirmed: %v", e.Name, e.Do, e.Err)
}

func (e Reconnected) String() string {
	return fmt.Sprintf("subscribed again to %d channels, their waiters retry", e.Channels)
}

func (e SubscribeRefused) String() string {
	if e.Name == "" {
		return fmt.Sprintf("Redis refuses to subscribe to %s, locks linger although others want them: %v", e.Channel, e.Err)
	}
	return fmt.Sprintf("lock %q: Redis refuses to subscribe to %s, so this process asks at intervals: %v", e.Name, e.Channel, e.Err)
}

func (e QueueLost) String() string {
	return fmt.Sprintf("lock %q: waiter %s lost its place in the queue, and queues again at its end", e.Name, e.ID)
}

func (e ActorPanicked) String() string {
	return fmt.Sprintf("%san actor panicked: %v", about(e.Name), e.Value)
}

func (e RequestDropped) String() string {
	return fmt.Sprintf("%srequest dropped: %s", about(e.Name), e.Reason)
}

// about returns the beginning of a text about the lock with this name; "" if there is no name.
func about(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("lock %q: ", name)
}

func (e RequesterBlocked) String() string {
	return fmt.Sprintf("actor %s blocks the delivery of messages, %d more are waiting", e.Requester, e.Waiting)
}

func (e CallbackPanicked) String() string {
	return fmt.Sprintf("Options.OnEvent, Options.Trace or ElectionOptions.OnLeader panicked: %v", e.Value)
}

func (e EventsDropped) String() string {
	return fmt.Sprintf("Options.OnEvent is too slow: %d events dropped", e.Count)
}

// LogValue returns kind, name, id, reason and held.
func (e LeaseLost) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", string(e.Kind)), slog.String("name", e.Name), slog.String("id", e.ID),
		slog.String("reason", string(e.Reason)), slog.Duration("held", e.Held))
}

// LogValue returns kind, name, waited, holder, local and ahead.
func (e Waiting) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", string(e.Kind)), slog.String("name", e.Name), slog.Duration("waited", e.Waited),
		slog.String("holder", e.Holder), slog.Bool("local", e.Local), slog.Int("ahead", e.Ahead))
}

// LogValue returns kind, name, id and since.
func (e LeaseLeaked) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", string(e.Kind)), slog.String("name", e.Name), slog.String("id", e.ID), slog.Time("since", e.Since))
}

// LogValue returns kind, name, id, left and error.
func (e RenewFailed) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", string(e.Kind)), slog.String("name", e.Name), slog.String("id", e.ID), slog.Duration("left", e.Left),
		slog.Any("error", e.Err))
}

// LogValue returns name, do and error.
func (e Unconfirmed) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", e.Name), slog.String("do", e.Do), slog.Any("error", e.Err))
}

// LogValue returns channels.
func (e Reconnected) LogValue() slog.Value { return slog.GroupValue(slog.Int("channels", e.Channels)) }

// LogValue returns name, channel and error.
func (e SubscribeRefused) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", e.Name), slog.String("channel", e.Channel), slog.Any("error", e.Err))
}

// LogValue returns name and id.
func (e QueueLost) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", e.Name), slog.String("id", e.ID))
}

// LogValue returns name and value, without the stack, which is long. Options.OnEvent gets the stack.
func (e ActorPanicked) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", e.Name), slog.Any("value", e.Value))
}

// LogValue returns name and reason.
func (e RequestDropped) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", e.Name), slog.String("reason", e.Reason))
}

// LogValue returns requester and waiting.
func (e RequesterBlocked) LogValue() slog.Value {
	return slog.GroupValue(slog.String("requester", e.Requester), slog.Int("waiting", e.Waiting))
}

// LogValue returns value.
func (e CallbackPanicked) LogValue() slog.Value { return slog.GroupValue(slog.Any("value", e.Value)) }

// LogValue returns count.
func (e EventsDropped) LogValue() slog.Value { return slog.GroupValue(slog.Int("count", e.Count)) }
