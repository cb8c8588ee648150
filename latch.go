package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/scripts"
)

// CountDownLatch is a handle on the latch of one name: a count that goes down to zero, for which others wait. Safe for concurrent use.
//
// The count is Redisson's RCountDownLatch's. Errors are those of a Semaphore.
type CountDownLatch struct{ counter }

// CountDownLatch is the latch of this name, Redisson's getCountDownLatch. Making a handle is cheap and does no I/O; a bad name is
// reported by the first call that would use it, as an error matching ErrInvalid.
func (rt *Runtime) CountDownLatch(name string) *CountDownLatch {
	return &CountDownLatch{rt.counter(scripts.CountDownLatch, name)}
}

// TrySetCount sets the count, 0 to 2^31-1, of a latch that has none, because it was never set, has come to zero or was deleted;
// false if it has one.
func (l *CountDownLatch) TrySetCount(ctx context.Context, n int) (bool, error) {
	set, err := l.count(ctx, scripts.LatchTrySet, n, 0, false)
	return set == 1, err
}

// CountDown makes the count one less; at zero, all who wait are woken and the latch is gone. Without a count nothing happens. It works
// when ctx has ended already: it then waits 500 ms. Until Redis confirms, the runtime goes on trying, for 30 s, also after an
// error that wraps ctx's: do not count down again. What it then had to give up is reported by an Unconfirmed event.
func (l *CountDownLatch) CountDown(ctx context.Context) error {
	_, err := l.count(ctx, scripts.LatchCountDown, 1, 1, false)
	return err
}

// Count is what is left to count; 0 for a latch that was never set or has come to zero.
func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	n, err := l.count(ctx, scripts.LatchRead, 0, 0, false)
	return int(n), err
}

// Wait returns when the count is zero, at once if there is none. When ctx ends before, the error wraps ctx's.
//
// Everybody who waits is woken; a second at most passes when the message of that was lost. Deleting the latch ends the waiting too, whereas
// Redisson's waiters go on. A waiter looks at the count once it is woken: if the latch was set again by then, it waits on.
func (l *CountDownLatch) Wait(ctx context.Context) error {
	_, err := l.count(ctx, scripts.LatchWait, 0, 0, false)
	return err
}

// Delete removes the latch; true if it had a count. Those who wait in Holdfast's processes return.
func (l *CountDownLatch) Delete(ctx context.Context) (bool, error) {
	deleted, err := l.count(ctx, scripts.LatchDelete, 0, 0, false)
	return deleted == 1, err
}
