package smoke_test

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// kind is something that one process acquires and another then waits for.
type kind struct {
	name  string
	setUp func(ctx context.Context, rt *holdfast.Runtime, name string) error // nil if not needed
	hold  taking                                                             // by the first process
	rival taking                                                             // by the second process, which has to wait
	polls bool                                                               // waiters poll, and no message wakes them
	fixed bool                                                               // nothing is renewed
	stays bool                                                               // the number of permits stays in Redis
}

// taking acquires something. If `try` is set, it tries only once. If not, it waits, at most until ctx ends.
type taking func(ctx context.Context, rt *holdfast.Runtime, name string, try bool) (held, error)

// held is something that was acquired.
type held interface {
	Release(ctx context.Context) error
	ExpiresAt() time.Time
}

// taker has the methods that locks and permit semaphores share.
type taker interface {
	Acquire(ctx context.Context, options ...holdfast.AcquireOption) (*holdfast.Lease, error)
	TryAcquire(ctx context.Context, options ...holdfast.AcquireOption) (*holdfast.Lease, error)
}

// by returns a taking that acquires with the runtime's handle.
func by[T taker](handle func(rt *holdfast.Runtime, name string) T) taking {
	return func(ctx context.Context, rt *holdfast.Runtime, name string, try bool) (held, error) {
		if try {
			return handle(rt, name).TryAcquire(ctx)
		}
		return handle(rt, name).Acquire(ctx)
	}
}

func alike(name string, take taking) kind { return kind{name: name, hold: take, rival: take} }

// kinds returns all kinds that the README lists, except the election.
func kinds() []kind {
	spin := alike("spin lock", by((*holdfast.Runtime).SpinLock))
	spin.polls = true
	red := alike("red lock", by(redLock))
	red.polls = true
	permits := alike("permit semaphore", by((*holdfast.Runtime).PermitSemaphore))
	permits.stays = true
	permits.setUp = func(ctx context.Context, rt *holdfast.Runtime, name string) error {
		return rt.PermitSemaphore(name).SetPermits(ctx, 1)
	}
	return []kind{
		alike("lock", by((*holdfast.Runtime).Lock)),
		alike("fair lock", by((*holdfast.Runtime).FairLock)),
		alike("fenced lock", by((*holdfast.Runtime).FencedLock)),
		spin,
		{name: "write lock before a reader", hold: by(writeLock), rival: by(readLock)},
		{name: "read lock before a writer", hold: by(readLock), rival: by(writeLock)},
		permits,
		alike("multi lock", by(multiLock)),
		red,
		semaphore,
		latch,
	}
}

func readLock(rt *holdfast.Runtime, name string) *holdfast.Lock  { return rt.RWLock(name).Read() }
func writeLock(rt *holdfast.Runtime, name string) *holdfast.Lock { return rt.RWLock(name).Write() }

func multiLock(rt *holdfast.Runtime, name string) *holdfast.MultiLock {
	return holdfast.Multi(rt.Lock(name+".a"), rt.FairLock(name+".b"))
}

func redLock(rt *holdfast.Runtime, name string) *holdfast.MultiLock {
	return holdfast.Red(rt.Lock(name+".a"), rt.Lock(name+".b"), rt.Lock(name+".c"))
}

// A semaphore with one permit, which has no owner.
var semaphore = kind{
	name:  "semaphore",
	fixed: true,
	stays: true,
	setUp: func(ctx context.Context, rt *holdfast.Runtime, name string) error {
		_, err := rt.Semaphore(name).TrySetPermits(ctx, 1)
		return err
	},
	hold: takePermit, rival: takePermit,
}

func takePermit(ctx context.Context, rt *holdfast.Runtime, name string, try bool) (held, error) {
	s := rt.Semaphore(name)
	release := unleased(func(ctx context.Context) error { return s.Release(ctx, 1) })
	if try {
		return release, s.TryAcquire(ctx, 1)
	}
	return release, s.Acquire(ctx, 1)
}

// A latch with a count of one. The first process counts it down, and the second waits for it.
var latch = kind{
	name:  "latch",
	fixed: true,
	hold: func(ctx context.Context, rt *holdfast.Runtime, name string, _ bool) (held, error) {
		l := rt.CountDownLatch(name)
		set, err := l.TrySetCount(ctx, 1)
		if err == nil && !set {
			err = errors.New("the latch was set before")
		}
		return unleased(l.CountDown), err
	},
	rival: func(ctx context.Context, rt *holdfast.Runtime, name string, try bool) (held, error) {
		l := rt.CountDownLatch(name)
		if n, err := l.Count(ctx); try && (err != nil || n > 0) {
			return nil, errors.Join(holdfast.ErrNotAcquired, err)
		}
		return unleased(func(context.Context) error { return nil }), l.Wait(ctx)
	},
}

// unleased releases something that has no lease.
type unleased func(ctx context.Context) error

func (u unleased) Release(ctx context.Context) error { return u(ctx) }
func (u unleased) ExpiresAt() time.Time              { return time.Time{} }
