package protocol

import "time"

// Acquire asks for the lock. Answered once, by Granted or Refused. The requester is watched until its leases have ended.
type Acquire struct {
	ID   uint64 // the requester's own, echoed by the answer
	Kind Kind
	Lock string // its name
	// Owner re-enters a lock that it holds; zero: an owner for this acquire alone.
	Owner Owner
	// Lease is a fixed lease, 50 ms to 24 h, that ends by Lost unless a Renew prolongs it; 0: renewed by the watchdog.
	Lease time.Duration
	// Wait bounds the waiting; 0: until a Cancel.
	Wait time.Duration
	// Backoff is how a waiter of a spin lock tries again; zero: 1 ms doubling to 128 ms.
	Backoff Backoff
	// Try asks for one attempt: Refused at once when the lock is taken or others wait.
	Try bool
}

// Backoff is how long a waiter of a spin lock pauses between attempts: Initial at first, each time Multiplier times as long, Max at
// most; always with jitter, from half of that up to all of it. Zero fields: 1 ms, 128 ms, 2.
type Backoff struct {
	Initial, Max time.Duration
	Multiplier   float64
}

// Granted says that the requester holds a lease now.
type Granted struct {
	ID      uint64
	Kind    Kind
	Lock    string
	Serial  uint64    // names the lease in Release, Renew and Lost
	LeaseID string    // owner field in Redis
	Token   int64     // fencing token, 0 for kinds without
	Until   time.Time // the local deadline; a watchdog lease is renewed before
	// Valid looks at the clock now: false from the local deadline on and once the lease has ended, even when Lost is still on its
	// way. It may be called from anywhere. Look right before an effect that must not come late.
	Valid func() bool
}

// Refused says that the Acquire with this ID was not granted; Err says why. Nothing is held by it.
type Refused struct {
	ID   uint64
	Kind Kind
	Lock string
	Err  error
}

// Cancel ends the waiting of the sender's Acquire with this ID, which is then answered by Refused with ErrNotAcquired. A Granted that
// is on its way already still arrives, and its lease has to be released. A Cancel that finds nothing does nothing; it has no answer.
type Cancel struct {
	ID   uint64
	Kind Kind
	Lock string
}

// Release gives the lease with this Serial back. Any actor may send it, but the lease must be one that was Granted to an actor: a
// goroutine's lease has no serial. Answered by Released.
type Release struct {
	ID     uint64
	Kind   Kind
	Lock   string
	Serial uint64
}

// Released answers a Release. The lease is over, whatever Err is: nil; ErrNotHeld for a serial that is not held, or not any more;
// ErrLeaseLost when Redis did not have it any more; ErrClosed while the runtime closes, which releases it; or what kept Redis from
// confirming.
type Released struct {
	ID     uint64
	Kind   Kind
	Lock   string
	Serial uint64
	Err    error
}

// Renew makes a fixed lease of an actor last from now to now + Lease, 50 ms to 24 h, also when that is shorter. Answered by Renewed.
type Renew struct {
	ID     uint64
	Kind   Kind
	Lock   string
	Serial uint64
	Lease  time.Duration
}

// Renewed answers a Renew. Err is nil; ErrNotHeld for a serial that is not held, or not any more; ErrLeaseLost when the lease ended
// meanwhile, by Lost; ErrInvalid for a lease that the watchdog renews, or a bad length; or what kept Redis from confirming: the
// shorter of the two lengths counts then.
type Renewed struct {
	ID     uint64
	Kind   Kind
	Lock   string
	Serial uint64
	Until  time.Time // the local deadline; zero with an Err
	Err    error
}

// Inspect asks for the state of the lock. Answered by Inspected.
type Inspect struct {
	ID   uint64
	Kind Kind
	Lock string
}

// Inspected answers an Inspect.
type Inspected struct {
	ID    uint64
	Kind  Kind
	Lock  string
	State State
	Err   error
}

// Lost says, unasked and once, that a lease of the requester ended without a Release: stop what the lock was for.
type Lost struct {
	Kind   Kind
	Lock   string
	Serial uint64
	Err    error // matches ErrLeaseLost or ErrClosed
}

// State is what is known of a lock: Redis' view, and this process's waiters and leases.
type State struct {
	Held    bool
	Holders []Holder      // as Redis has them
	Local   []string      // leases held in this process, by Owner
	TTL     time.Duration // until the server would free it
	Mode    string        // "exclusive", "read" or "write"; "" when free
	Queue   []string      // owner fields waiting, fair locks only
	Token   int64         // fenced locks: no smaller than any token issued
	Waiting int           // waiters in this process
}

// Holder is one holder as Redis has it.
type Holder struct {
	ID    string // owner field
	Holds int
}
