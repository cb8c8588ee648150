package wait

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Request is one operation on one lock, and the place for its answer. The request itself is the message: it travels from the requester to the actor
// of the lock and back. The actor owns it from the send to the answer.
type Request struct {
	// set by the requester
	Do       Operation
	Address  *lease.Address
	Owner    protocol.Owner // explicit owner of an acquire
	Terms                   // the lease that an acquire or an extend asks for
	Try      bool
	Backoff  protocol.Backoff // back-off of an acquire that spins
	Deadline time.Duration    // of a force-release: the last instant at which Redis may execute it; 0 if only the window of its call limits it
	Hold     *lease.Hold      // of an acquire: the hold to fill; of a release or extend: the hold that is meant

	// of an operation that counts
	Count *scripts.CountOp
	// Number is the number of permits, or the value to set. If the request waits until a latch is zero, the machine sets Number: such requests are
	// numbered in the order of their arrival. When an operation whose Way is scripts.Give or scripts.Ask is answered, Number becomes the result from
	// Redis.
	Number int64

	// The receiver of the answer: one of the three is set.
	Answered  chan struct{}  // a goroutine
	Notify    func(*Request) // a function; called on the lock actor, so it must not block
	Requester lease.Ref      // an actor

	// of a request by an actor
	ID     uint64 // the actor's own number for the request
	Serial uint64 // of a release or extend: the serial number of the lease

	// the answer
	Err   error
	State *protocol.State // of an inspect
	Held  bool            // of a force-release: the lock was held
	Until time.Duration   // of an extend: the new deadline

	Span     *trace.Span // nil if Trace does not follow this acquire
	Attempts int         // calls to Redis for this acquire

	Offer rpc.Offer // with it, the goroutine that makes the request may offer to send a call itself

	Routed bool // the registry counts the request as in flight until the actor has handled it

	// owned by the lock actor, in a group
	Part any // the part of the machine that serves the request; only the machine reads it

	// owned by the lock actor while it waits
	Queue      *Queue
	Next, prev *Request
	Came       time.Duration // when the request came; failures before that instant do not count for the request
	Slow       bool          // the request was reported for waiting long
	passed     bool          // the request is one of those before Queue.fresh
	Timer      clock.Timer   // ends the wait of an actor's bounded acquire
}

// Operation says what a request asks for.
type Operation uint8

// The operations.
const (
	Acquire Operation = iota
	Release
	Extend
	Inspect // does not pass through a machine, and neither does ForceRelease: see actors/inspect.go
	ForceRelease
	Count  // the operation in Request.Count
	Cancel // only in the actor message API; the machine gets a CancelRequest
)

func (o Operation) String() string {
	return [...]string{"acquire", "release", "extend", "inspect", "force-release", "count", "cancel"}[o]
}

// Because makes the error of a request from its operation, its lock and the cause. Several names may map to one key, so the error carries the
// name that the requester used.
func (r *Request) Because(cause error) error {
	if r.Address.Raw != r.Address.Name && (errors.Is(cause, protocol.ErrForeignKey) || scripts.IsDenied(cause)) {
		if key := strconv.Quote(r.Address.Raw); !strings.Contains(cause.Error(), key) {
			cause = fmt.Errorf("%w (key %s)", cause, key)
		}
	}
	return fmt.Errorf("holdfast: %s %s: %w", r.what(), lease.Quoted(r.Address.Name), cause)
}

// what returns the operation in words.
func (r *Request) what() string {
	if r.Count != nil {
		return r.Count.Word
	}
	return r.Do.String()
}

// StopTimer stops the timer of a bounded wait.
func (r *Request) StopTimer() {
	if r.Timer != nil {
		r.Timer.Stop()
	}
}

// ErrPanicked is the cause of the error of a request that a panic has interrupted.
var ErrPanicked = errors.New("the actor panicked")

// TooMany is the error of a request that would have to wait although Options.MaxWaiters requests are waiting already.
func TooMany(waiting int) error {
	return fmt.Errorf("%w: %d wait already, Options.MaxWaiters allows no more", protocol.ErrTooManyWaiters, waiting)
}

// NotSet is the error of an acquire that needs a number which was never set, such as a semaphore's number of permits.
func NotSet(r *Request) error {
	return fmt.Errorf("%w: %s", protocol.ErrNotAcquired, r.Address.Kind.NotSet)
}
