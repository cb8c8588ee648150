package protocol

import (
	"errors"
	"fmt"
	"time"
)

// The sentinels. What the runtime returns wraps one of them and names the lock; the Redis error underneath stays reachable.
var (
	// ErrNotAcquired is returned when the lock is taken (a try), or stayed taken until the wait or the context ended.
	ErrNotAcquired = errors.New("not acquired")
	// ErrNotHeld is returned for a lease that was released already.
	ErrNotHeld = errors.New("not held")
	// ErrLeaseLost is returned when a lease ended without a release: expired, deleted, force-released, failed over away.
	ErrLeaseLost = errors.New("lease lost")
	// ErrClosed is returned when the runtime is closed, closing or shutting down, and for a lease that Close ended.
	ErrClosed = errors.New("runtime closed")
	// ErrTooManyWaiters is returned when a name has Options.MaxWaiters waiters already.
	ErrTooManyWaiters = errors.New("too many waiters")
	// ErrNotReplicated is returned when fewer replicas than Options.AckReplicas acknowledged; the acquire was undone.
	ErrNotReplicated = errors.New("not replicated")
	// ErrUpgrade is returned when the owner of a read lock asks for the write lock: that can never succeed.
	ErrUpgrade = errors.New("read lock cannot be upgraded")
	// ErrForeignKey is returned when the key holds something else: another type, a value that is no lock, or a lock of another
	// family. It is left as it is.
	ErrForeignKey = errors.New("key holds something else")
	// ErrInvalid is returned for a bad name, option or argument.
	ErrInvalid = errors.New("invalid")
)

// BusyError tells by whom a lock was held when an acquire was refused. It matches ErrNotAcquired.
type BusyError struct {
	Name   string        // of the lock
	Holder string        // owner field of one of the holders, "" if it could not be told
	TTL    time.Duration // until the server would free it, 0 if it could not be told
	Local  bool          // this runtime holds it: perhaps the caller itself, which then would wait for itself
}

// Error names the lock, the holder and the time left.
func (e *BusyError) Error() string {
	text := fmt.Sprintf("holdfast: acquire %q: not acquired: ", e.Name)
	if e.Holder == "" {
		return text + "taken"
	}
	text += "held by " + e.Holder
	if e.Local {
		text += " (this very runtime)"
	}
	if e.TTL > 0 {
		text += fmt.Sprintf(" for another %v at most", e.TTL.Round(time.Millisecond))
	}
	return text
}

// Is makes errors.Is(err, ErrNotAcquired) true.
func (e *BusyError) Is(target error) bool { return target == ErrNotAcquired }
