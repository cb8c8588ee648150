package holdfast

import "github.com/holdfast-go/holdfast/protocol"

// The errors that this package returns match one of these by errors.Is, name the lock, and wrap the cause.
var (
	// ErrNotAcquired: TryAcquire found the lock taken, or WithWait elapsed, or ctx ended while waiting; then ctx's error matches
	// too. errors.As to a *BusyError tells by whom it was held, if that is known.
	ErrNotAcquired = protocol.ErrNotAcquired
	// ErrNotHeld: Release or Extend of a lease that was released already.
	ErrNotHeld = protocol.ErrNotHeld
	// ErrLeaseLost: the lease ended without Release: expired, key deleted, force-released, failed over away.
	ErrLeaseLost = protocol.ErrLeaseLost
	// ErrClosed: the runtime is closed, closing or shutting down; or Close ended the lease.
	ErrClosed = protocol.ErrClosed
	// ErrTooManyWaiters: Options.MaxWaiters acquires wait for the name already.
	ErrTooManyWaiters = protocol.ErrTooManyWaiters
	// ErrNotReplicated: fewer than Options.AckReplicas replicas acknowledged; the acquire was undone.
	ErrNotReplicated = protocol.ErrNotReplicated
	// ErrUpgrade: the owner of a read lock asked for the write lock, which can never succeed.
	ErrUpgrade = protocol.ErrUpgrade
	// ErrForeignKey: the key holds something else: another type, a value that is no lock, or a lock of another
	// family. It is left as it is.
	ErrForeignKey = protocol.ErrForeignKey
	// ErrInvalid: a bad name, option or argument.
	ErrInvalid = protocol.ErrInvalid
)

// BusyError tells by whom the lock was held when an acquire was refused. It matches ErrNotAcquired. Local says that this very runtime
// holds it: maybe the caller itself, which without a WithOwner, or the context that Do gives to its function, does not re-enter.
type BusyError = protocol.BusyError

// CheckError is what Runtime.Check and Runtime.CheckFor return: Findings, the most important first. Its text has 25 lines at most, and
// one rule with all the rights that are missing.
type CheckError = protocol.CheckError

// Finding is one thing that a check has found missing or wrong: What, Why it matters, and the Remedy.
type Finding = protocol.Finding
