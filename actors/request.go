package actors

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
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
	do       operation
	address  *lease.Address
	owner    protocol.Owner // explicit owner of an acquire
	lease    time.Duration  // of an acquire: fixed lease, 0 watchdog; of an extend: the new length
	try      bool
	backoff  protocol.Backoff // of an acquire that spins
	bounded  bool             // somebody will ask who held the lock
	deadline time.Duration    // of a force-release: it must not be executed later; 0: its own time is all
	hold     *lease.Hold      // of an acquire: to be filled; of release and extend: which one

	// of an operation that counts
	count  *scripts.CountOp
	number int64 // how many; in the answer, what is left

	// who is answered: one of the three
	answered  chan struct{}  // a goroutine
	notify    func(*Request) // a Pending; called on the lock actor, must not block
	requester lease.Ref      // an actor; id is its own name for the request
	id        uint64
	serial    uint64 // of a release or renew by an actor: the lease that it names

	// the answer
	err   error
	state protocol.State
	held  bool          // of a force-release: it was held
	until time.Duration // of an extend: the new deadline

	// owned by the lock actor, in a hall
	home *lockState // the part that serves it

	// owned by the lock actor while it waits
	queue      *requestQueue
	next, prev *Request
	came       time.Duration // what happened to attempts before says nothing to it
	wait       clock.Timer   // ends a bounded acquire of an actor
}

type operation uint8

const (
	opAcquire operation = iota
	opRelease
	opExtend
	opInspect
	opForceRelease
	opCount  // whatever Request.count is
	opCancel // of the actor message API; it is no Request to a lock actor
)

func (o operation) String() string {
	return [...]string{"acquire", "release", "extend", "inspect", "force-release", "count", "cancel"}[o]
}

// because is the error of a request: what was asked for, of which lock, and why it failed. Several names may mean one lock; it
// says the requester's.
func (r *Request) because(cause error) error {
	if r.address.Raw != r.address.Name && (errors.Is(cause, protocol.ErrForeignKey) || scripts.IsDenied(cause)) {
		cause = fmt.Errorf("%w (key %q)", cause, r.address.Raw)
	}
	return fmt.Errorf("holdfast: %s %s: %w", r.what(), Quoted(r.address.Name), cause)
}

// what says in words what is asked for.
func (r *Request) what() string {
	if r.count != nil {
		return r.count.Word
	}
	return r.do.String()
}

// shownName is how much is shown of a name that is too long to be one.
const shownName = 64

// Quoted is how errors show a name that may be none: it may be huge.
func Quoted(name string) string {
	if len(name) > protocol.MaxName {
		return strconv.Quote(name[:shownName]) + "..."
	}
	return strconv.Quote(name)
}

// stopTimer ends the bound on its waiting.
func (r *Request) stopTimer() {
	if r.wait != nil {
		r.wait.Stop()
	}
}

// requestPool keeps answered requests of goroutines. Each engine has its own: a channel must not leave the testing/synctest
// bubble that it was made in.
type requestPool struct{ pool sync.Pool }

// take is a request for a goroutine.
func (p *requestPool) take(do operation, address *lease.Address) *Request {
	r, _ := p.pool.Get().(*Request)
	if r == nil {
		r = &Request{answered: make(chan struct{}, 1)}
	}
	r.do, r.address = do, address
	return r
}

// put takes an answered request back. One that a cancel may still name must not come back: it is left to the collector.
func (p *requestPool) put(r *Request) {
	*r = Request{answered: r.answered}
	p.pool.Put(r)
}

// wants reports whether a grant with this lease is what an acquire asks for.
func (r *Request) wants(lease time.Duration, watched bool) bool {
	return (r.lease == 0) == watched && (watched || r.lease == lease)
}

// requestQueue is a FIFO of waiting acquires that any of them can leave in constant time.
type requestQueue struct {
	head, tail *Request
	len        int
	owners     map[protocol.Owner]int // how many wait under each explicit owner
	crowd      *int                   // how many wait in this queue and in others that count together; nil: it counts alone
}

func (q *requestQueue) front() *Request { return q.head }

func (q *requestQueue) push(r *Request) {
	r.queue, r.prev, r.next = q, q.tail, nil
	if q.tail == nil {
		q.head = r
	} else {
		q.tail.next = r
	}
	q.tail = r
	q.count(1)
	if !r.owner.IsZero() {
		if q.owners == nil {
			q.owners = map[protocol.Owner]int{}
		}
		q.owners[r.owner]++
	}
}

func (q *requestQueue) count(n int) {
	q.len += n
	if q.crowd != nil {
		*q.crowd += n
	}
}

// remove takes r out; false when it does not wait here.
func (q *requestQueue) remove(r *Request) bool {
	if r.queue != q {
		return false
	}
	if r.prev == nil {
		q.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		q.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.queue, r.prev, r.next = nil, nil, nil
	q.count(-1)
	if !r.owner.IsZero() {
		if q.owners[r.owner]--; q.owners[r.owner] == 0 {
			delete(q.owners, r.owner)
		}
	}
	return true
}
