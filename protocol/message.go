package protocol

import "time"

// Acquire requests the lock. It is answered once, by Granted or Refused. If the requester terminates, its waits end and its
// leases are released.
type Acquire struct {
	ID   uint64 // chosen by the requester, echoed by the answer
	Kind Kind
	Lock string // its name
	// Owner is the owner that acquires. It re-enters a lock that it holds already. The zero Owner gives this acquire an owner of its own.
	Owner Owner
	// Lease is the length of a fixed lease, 50 ms to 24 h. A fixed lease ends with Lost, unless a Renew prolongs it or a Release arrives
	// first. If Lease is 0, the watchdog renews the lease.
	Lease time.Duration
	// Wait limits the time of waiting. If it is 0, the acquire waits until a Cancel.
	Wait time.Duration
	// Backoff sets the pauses of a spin lock's waiter. By default they begin at 1 ms and double up to 128 ms.
	Backoff Backoff
	// Try makes one attempt. If the lock is taken or others wait for it, the acquire is Refused at once.
	Try bool
}

// Backoff sets how long a waiter of a spin lock pauses between attempts. The first pause is Initial, and each following one is
// Multiplier times as long, up to Max. Jitter shortens each pause by up to half. The defaults are an Initial of 1 ms, a Max of 128 ms
// and a Multiplier of 2.
type Backoff struct {
	Initial, Max time.Duration
	Multiplier   float64
}

// Granted reports that the requester now holds a lease.
type Granted struct {
	ID      uint64
	Kind    Kind
	Lock    string
	Serial  uint64    // names the lease in Release, Renew and Lost
	LeaseID string    // owner field in Redis
	Token   int64     // fencing token, 0 for kinds without
	Until   time.Time // the local deadline; a watchdog lease is renewed before it
	// Valid reads the clock, and reports whether the lease is still held. It returns false once the local deadline has passed, or once
	// the lease has ended for another reason, even if Lost is still in flight. Valid is safe for concurrent use. Call it immediately before any
	// side effect that must not happen after the lease has ended.
	Valid func() bool
}

// Refused reports that the Acquire with this ID was not granted, and Err says why. There is no lease to release.
type Refused struct {
	ID   uint64
	Kind Kind
	Lock string
	Err  error
}

// Cancel ends the waiting of the sender's Acquire with this ID. The Acquire is then answered by Refused with ErrNotAcquired. If a Granted is
// already in flight, it still arrives, and its lease has to be released. A Cancel that matches no Acquire does nothing. Cancel has no answer.
type Cancel struct {
	ID   uint64
	Kind Kind
	Lock string
}

// Release releases the lease with this Serial, and is answered by Released. Any actor may send a Release, but the lease must
// have been granted to an actor: a goroutine's lease has no serial.
type Release struct {
	ID     uint64
	Kind   Kind
	Lock   string
	Serial uint64
}

// Released answers a Release. If Err is ErrInvalid, the kind or name is bad and nothing was released. In all other cases the lease is
// over, and Err is one of these:
//
//   - nil: the lease was released
//   - ErrNotHeld: the serial is unknown, or the lease had ended before
//   - ErrLeaseLost: Redis no longer had the lease
//   - ErrClosed: the runtime closes, and releases the lease
//   - any other error: Redis did not confirm the release
type Released struct {
	ID     uint64
	Kind   Kind
	Lock   string
	Serial uint64
	Err    error
}

// Renew makes an actor's fixed lease end at now + Lease, even if that is sooner than before. Lease is 50 ms to 24 h. Renew is
// answered by Renewed.
type Renew struct {
	ID     uint64
	Kind   Kind
	Lock   string
	Serial uint64
	Lease  time.Duration
}

// Renewed answers a Renew. Err is one of these:
//
//   - nil: the lease has the new length
//   - ErrNotHeld: the serial is unknown, or the lease had ended before
//   - ErrLeaseLost: the lease was lost meanwhile (see Lost)
//   - ErrInvalid: the watchdog renews the lease, or the kind, name or length is bad
//   - ErrClosed: the runtime closes
//   - any other error: Redis did not confirm the new length, so the lease ends at the earlier of its old and its new end
type Renewed struct {
	ID     uint64
	Kind   Kind
	Lock   string
	Serial uint64
	Until  time.Time // the local deadline; zero with an Err
	Err    error
}

// Inspect requests the state of the lock. It is answered by Inspected.
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

// Lost tells the requester that one of its leases ended without a Release. It is sent once, without a request. The requester should stop
// the work that needed the lock.
type Lost struct {
	Kind   Kind
	Lock   string
	Serial uint64
	Err    error // matches ErrLeaseLost or ErrClosed
}

// State describes a lock: what Redis has, and this process's waiters and leases.
type State struct {
	Held    bool
	Holders []Holder      // as stored in Redis
	Local   []string      // one entry for each lease in this process: its Owner, or its owner field if it has no Owner
	TTL     time.Duration // time until the server would free it
	Mode    string        // "exclusive", "read" or "write"; "" when free
	Queue   []string      // owner fields of the waiters, fair locks only
	Token   int64         // fenced locks: at least as large as any issued token
	Waiting int           // waiters in this process
}

// Holder is one holder of a lock, as stored in Redis.
type Holder struct {
	ID    string // owner field
	Holds int
}
