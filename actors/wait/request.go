package wait

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Request is what somebody wants of one lock, and the place where the answer comes: the waiter is the message itself.
// The lock actor owns it from the send to the answer.
type Request struct {
	// set by the requester
	Do       Operation
	Address  *lease.Address
	Owner    protocol.Owner // explicit owner of an acquire
	Lease    time.Duration  // of an acquire: fixed lease, 0 watchdog; of an extend: the new length
	Try      bool
	Backoff  protocol.Backoff // of an acquire that spins
	Bounded  bool             // somebody will ask who held the lock
	Deadline time.Duration    // of a force-release: it must not be executed later; 0: its own time is all
	Hold     *lease.Hold      // of an acquire: to be filled; of release and extend: which one

	// of an operation that counts
	Count  *scripts.CountOp
	Number int64 // how many; in the answer, what is left

	// who is answered: one of the three
	Answered  chan struct{}  // a goroutine
	Notify    func(*Request) // a Pending; called on the lock actor, must not block
	Requester lease.Ref      // an actor; ID is its own name for the request
	ID        uint64
	Serial    uint64 // of a release or renew by an actor: the lease that it names

	// the answer
	Err   error
	State protocol.State
	Held  bool          // of a force-release: it was held
	Until time.Duration // of an extend: the new deadline

	// owned by the lock actor, in a group
	Home any // the part of the machine that serves it; nothing else looks at it

	// owned by the lock actor while it waits
	Queue      *Queue
	Next, prev *Request
	Came       time.Duration // what happened to attempts before says nothing to it
	Timer      clock.Timer   // ends a bounded acquire of an actor
}

// Operation is what is asked for.
type Operation uint8

// The operations.
const (
	Acquire Operation = iota
	Release
	Extend
	Inspect
	ForceRelease
	Count  // whatever Request.Count is
	Cancel // of the actor message API; it is no Request to a lock actor
)

func (o Operation) String() string {
	return [...]string{"acquire", "release", "extend", "inspect", "force-release", "count", "cancel"}[o]
}

// Because is the error of a request: what was asked for, of which lock, and why it failed. Several names may mean one lock; it
// says the requester's.
func (r *Request) Because(cause error) error {
	if r.Address.Raw != r.Address.Name && (errors.Is(cause, protocol.ErrForeignKey) || scripts.IsDenied(cause)) {
		cause = fmt.Errorf("%w (key %q)", cause, r.Address.Raw)
	}
	return fmt.Errorf("holdfast: %s %s: %w", r.what(), lease.Quoted(r.Address.Name), cause)
}

// what says in words what is asked for.
func (r *Request) what() string {
	if r.Count != nil {
		return r.Count.Word
	}
	return r.Do.String()
}

// StopTimer ends the bound on its waiting.
func (r *Request) StopTimer() {
	if r.Timer != nil {
		r.Timer.Stop()
	}
}

// Wants reports whether a grant with this lease is what an acquire asks for.
func (r *Request) Wants(length time.Duration, watched bool) bool {
	return (r.Lease == 0) == watched && (watched || r.Lease == length)
}
