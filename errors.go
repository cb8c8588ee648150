package holdfast

import (
	"errors"

	"github.com/holdfast-go/holdfast/protocol"
)

// Sentinel errors. Every error of this package matches one of them by errors.Is, or wraps its cause, which is an error of Redis or of the context. An
// error about a lock names the lock.
var (
	// ErrNotAcquired: you do not have the lock. TryAcquire found it taken, the time of WithWait elapsed, or ctx ended. If ctx ended, the error also
	// matches ctx.Err(). If others have the lock, the error is a *BusyError (errors.As). If it is no *BusyError, then either ctx had ended before the
	// call, or Redis did not answer within the wait. If Redis did not answer, the error wraps the cause, such as a net.Error. (For semaphores, which
	// have no holders, ErrNotAcquired also means that too few permits are available.)
	ErrNotAcquired = protocol.ErrNotAcquired
	// ErrNotHeld: the lease was already released when Release or Extend was called.
	ErrNotHeld = protocol.ErrNotHeld
	// ErrLeaseLost: the lease ended without Release: it expired, the key was deleted, the lock was force-released, or a failover
	// lost it.
	ErrLeaseLost = protocol.ErrLeaseLost
	// ErrClosed: the runtime is closed, closing or shutting down; or Close ended the lease.
	ErrClosed = protocol.ErrClosed
	// ErrTooManyWaiters: Options.MaxWaiters acquires are already waiting for the name.
	ErrTooManyWaiters = protocol.ErrTooManyWaiters
	// ErrNotReplicated: fewer than Options.AckReplicas replicas acknowledged the acquire. The grant is then released in the background.
	ErrNotReplicated = protocol.ErrNotReplicated
	// ErrUpgrade: the owner of a read lock asked for the write lock, which can never succeed.
	ErrUpgrade = protocol.ErrUpgrade
	// ErrForeignKey: a key of the lock holds something else. The lock's own key may have another type, a value that is not a lock, or a lock of an
	// incompatible kind. If another key that the lock needs (such as its queue) holds something else, the error names that key. All keys are left
	// unchanged.
	ErrForeignKey = protocol.ErrForeignKey
	// ErrInvalid: a name, option or argument is invalid.
	ErrInvalid = protocol.ErrInvalid
	// ErrNoLeader: nobody leads the election.
	ErrNoLeader = errors.New("nobody leads")
	// ErrResign: the function given to Election.Run returns it to give up the leadership and end Run without an error. After
	// Election.Resign, it is also the cause with which that function's context ends.
	ErrResign = errors.New("the leader resigns")
)

// BusyError reports the holder of a lock when an acquire was refused. It matches ErrNotAcquired. Fields: Name, Holder (the owner field of one
// holder), TTL (the time until Redis frees the lock, unless its lease is renewed) and Local. If Local is true, this runtime holds the lock, possibly
// for the caller itself. To re-enter, acquire with WithOwner, or with the context that Do passes to its function. See [protocol.BusyError].
type BusyError = protocol.BusyError

// CheckError is the error of Runtime.Check and Runtime.CheckFor. Findings lists the problems, the most important first; Causes are the
// underlying errors. Its text has at most 25 lines, and includes one ACL rule that grants all missing rights. See [protocol.CheckError].
type CheckError = protocol.CheckError

// Finding is one problem found by a check: What is missing or wrong, Why it matters, and the Remedy. See [protocol.Finding].
type Finding = protocol.Finding
