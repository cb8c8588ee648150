package protocol

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Sentinel errors. Each error of the runtime wraps one of them, or wraps the error of Redis that was its cause.
var (
	// ErrNotAcquired is returned when a try finds the lock taken, or when the wait or the context of an acquire ends before the grant. If the lock is
	// taken, errors.As finds a *BusyError. If Redis has not answered, or the context had ended before the call, the error wraps the cause.
	ErrNotAcquired = errors.New("not acquired")
	// ErrNotHeld is returned for a lease that was already released.
	ErrNotHeld = errors.New("not held")
	// ErrLeaseLost is returned when a lease ended without a release, for example because it expired or was deleted; LossReason has all
	// reasons.
	ErrLeaseLost = errors.New("lease lost")
	// ErrClosed is returned when the runtime is closed, closing or shutting down, and for a lease that Close ended.
	ErrClosed = errors.New("runtime closed")
	// ErrTooManyWaiters is returned when Options.MaxWaiters acquires are already waiting for the name.
	ErrTooManyWaiters = errors.New("too many waiters")
	// ErrNotReplicated is returned when fewer than Options.AckReplicas replicas acknowledged the acquire. The grant is then released in the background.
	ErrNotReplicated = errors.New("not replicated")
	// ErrUpgrade is returned when the owner of a read lock asks for the write lock, which can never succeed.
	ErrUpgrade = errors.New("read lock cannot be upgraded")
	// ErrForeignKey is returned when a key that the lock needs holds something else than this lock: another type, a value that is not a lock, or a lock
	// of an incompatible kind. If the key is not the lock's own key, the error names it. The key is left unchanged.
	ErrForeignKey = errors.New("key holds something else")
	// ErrInvalid is returned for an invalid name, option or argument.
	ErrInvalid = errors.New("invalid")
)

// BusyError reports the holder of a lock when an acquire was refused. It matches ErrNotAcquired.
type BusyError struct {
	Name   string        // of the lock
	Holder string        // owner field of one of the holders; "" if unknown; RUNTIME:-NUMBER if the lock was released, but WithAtLeast keeps it taken
	TTL    time.Duration // time until the lock expires in Redis if it is not renewed; 0 if unknown
	Local  bool          // this runtime holds the lock; perhaps the caller itself is the holder, and would wait for its own release
}

// Error names the lock, the holder and the time left.
func (e *BusyError) Error() string {
	text := fmt.Sprintf("holdfast: acquire %q: not acquired: ", e.Name)
	runtime, number, kept := strings.Cut(e.Holder, ":-")
	switch {
	case kept:
		return text + fmt.Sprintf("released by %s:%s, and kept WithAtLeast for another %v", runtime, number, e.TTL.Round(time.Millisecond))
	case e.Holder == "":
		text += "taken"
	default:
		text += "held by " + e.Holder
	}
	if e.Local {
		text += " (this very runtime)"
	}
	if e.TTL > 0 {
		text += fmt.Sprintf("; its lease has %v left, and may be renewed", e.TTL.Round(time.Millisecond))
	}
	return text
}

// Is makes errors.Is(err, ErrNotAcquired) true.
func (e *BusyError) Is(target error) bool { return target == ErrNotAcquired }
