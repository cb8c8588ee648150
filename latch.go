package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/scripts"
)

// CountDownLatch is a handle to a named latch, whose waiters wait until its count has reached zero. It shares the count with
// Redisson's RCountDownLatch of the same name. Errors are those of Semaphore. Safe for concurrent use.
//
// On a cluster the name must not have a {tag}: Redisson's channel for such a latch is in another hash slot, so Redis refuses (CROSSSLOT) to set,
// count down or delete the latch.
type CountDownLatch struct{ counter }

// CountDownLatch returns the latch with this name (Redisson's getCountDownLatch). Making a handle is cheap and does no I/O. A bad
// name is reported by the first call that would use it, as an error matching ErrInvalid.
func (rt *Runtime) CountDownLatch(name string) *CountDownLatch {
	return &CountDownLatch{rt.counter(scripts.CountDownLatch, name)}
}

// TrySetCount sets the count to n if the latch has no count, and reports whether it did. n is 0 to 2^31-1. A latch has no count if it was never
// set, was counted down to zero, or was deleted. A count that TrySetCount has set to 0 stays until CountDown or Delete removes it.
func (l *CountDownLatch) TrySetCount(ctx context.Context, n int) (bool, error) {
	set, err := l.count(ctx, scripts.LatchTrySet, n, 0, false)
	return set == 1, err
}

// CountDown decrements the count. At zero, all waiters are woken and the latch is removed. Without a count it does nothing.
//
// CountDown works even if ctx has ended: it then waits up to 500 ms for Redis. If CountDown returns an error that wraps ctx's error, do not count
// down again: the runtime retries for up to 30 s until Redis confirms. If the runtime gives up, it reports an Unconfirmed event.
func (l *CountDownLatch) CountDown(ctx context.Context) error {
	_, err := l.count(ctx, scripts.LatchCountDown, 1, 1, false)
	return err
}

// Count returns the current count; 0 if the latch was never set or has reached zero.
func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	n, err := l.count(ctx, scripts.LatchRead, 0, 0, false)
	return int(n), err
}

// Wait returns when the count is zero, or at once if the latch has no count. If ctx ends first, the error wraps ctx's.
//
// When the count reaches zero, all waiters are woken; if the notification is lost, they notice within a second. Deleting the latch ends the wait too,
// unlike in Redisson. A woken waiter reads the count: if the latch has been set again by then, the waiter keeps waiting.
func (l *CountDownLatch) Wait(ctx context.Context) error {
	_, err := l.count(ctx, scripts.LatchWait, 0, 0, false)
	return err
}

// Delete removes the latch, and reports whether it had a count. Waiters in Holdfast's processes return.
func (l *CountDownLatch) Delete(ctx context.Context) (bool, error) {
	deleted, err := l.count(ctx, scripts.LatchDelete, 0, 0, false)
	return deleted == 1, err
}
