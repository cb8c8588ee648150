package holdfast

import (
	"errors"

	"github.com/holdfast-go/holdfast/protocol"
)

// Sentinel errors. Every error of this package matches one of them by errors.Is, or wraps the error of Redis or of the context that
// caused it. An error about a lock names it.
var (
	// ErrNotAcquired: TryAcquire found the lock taken, WithWait elapsed, or ctx ended while waiting; in that case ctx's error
	// matches too. If the holder is known, errors.As to a *BusyError names it.
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
	// ErrNotReplicated: fewer than Options.AckReplicas replicas acknowledged the acquire, so it was undone.
	ErrNotReplicated = protocol.ErrNotReplicated
	// ErrUpgrade: the owner of a read lock asked for the write lock, which can never succeed.
	ErrUpgrade = protocol.ErrUpgrade
	// ErrForeignKey: the key holds something else: another type, a value that is not a lock, or a lock of an incompatible kind. The
	// key is left unchanged.
	ErrForeignKey = protocol.ErrForeignKey
	// ErrInvalid: a name, option or argument is invalid.
	ErrInvalid = protocol.ErrInvalid
	// ErrNoLeader: nobody leads the election.
	ErrNoLeader = errors.New("nobody leads")
	// ErrResign: returned by the function given to Election.Run to give the leadership up and end Run without an error. It is also the
	// cause of the end of that function's context after Election.Resign.
	ErrResign = errors.New("the leader resigns")
)

// BusyError reports the holder of a lock when an acquire was refused. It matches ErrNotAcquired. If Local is true, this runtime
// holds the lock, possibly for the caller itself: to re-enter, acquire with WithOwner, or with the context that Do passes to its
// function.
type BusyError = protocol.BusyError

// CheckError is the error of Runtime.Check and Runtime.CheckFor. Findings lists the problems, the most important first. Its text
// has at most 25 lines, and includes one ACL rule that grants all missing rights.
type CheckError = protocol.CheckError

// Finding is one problem found by a check: What is missing or wrong, Why it matters, and the Remedy.
type Finding = protocol.Finding
