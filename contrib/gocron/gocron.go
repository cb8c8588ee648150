// Package gocron lets several processes share the jobs of [gocron]. With a Locker, each run of a job happens in one of the processes. With an
// Elector, all runs happen in the process that leads.
//
// gocron does not end a job whose lock was lost, because a gocron.Locker cannot report the loss. A job that must never run twice at the same time
// should call Do or TryDo of a holdfast.Lock, whose context ends with the lease.
//
// [gocron]: https://github.com/go-co-op/gocron
package gocron

import (
	"context"
	"errors"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
)

// Option changes what NewLocker makes.
type Option func(*locker)

// AtLeast keeps the lock of a run for at least d (50 ms to 24 h), even if the job ends sooner or its process dies. If a job takes less time than
// the difference between the clocks of two processes, then without AtLeast both processes run the job. Choose a d that is longer than that difference
// and shorter than the interval of the job: 10 s for a job that runs once a minute, 500 ms for one that runs each second. If d is out of its bounds,
// every run is skipped, and the AfterLockError listeners get ErrInvalid.
//
// Each process counts the interval of a gocron.DurationJob from its own start. So the runs of two processes may be further apart than their clocks.
// Let such a job start at a multiple of the interval, with gocron.WithStartAt.
func AtLeast(d time.Duration) Option {
	return func(l *locker) { l.acquire = append(l.acquire, holdfast.WithAtLeast(d)) }
}

// Prefix sets the prefix of the names of locks; the default is "gocron:". A lock's name is this prefix and the name of the job. Services that share
// one Redis need different prefixes.
func Prefix(prefix string) Option { return func(l *locker) { l.prefix = prefix } }

// NewLocker makes a Locker for gocron.WithDistributedLocker and gocron.WithDistributedJobLocker. The name of a lock is the prefix and the job's name,
// made legal by holdfast.EscapeName. The job's name is the function's name unless gocron.WithName sets another.
//
// If a run cannot acquire its lock, gocron skips the run, and calls the AfterLockError listeners of the job. The error is a *holdfast.BusyError if
// the job runs elsewhere, or has run so recently that AtLeast still keeps the lock. Any other error is a failure, such as a Redis that does not
// answer. A watchdog renews the lock while the job runs.
func NewLocker(rt *holdfast.Runtime, opts ...Option) gocron.Locker {
	l := &locker{rt: rt, prefix: "gocron:"}
	for _, o := range opts {
		o(l)
	}
	return l
}

type locker struct {
	rt      *holdfast.Runtime
	prefix  string
	acquire []holdfast.AcquireOption
}

// Lock is called before each run.
func (l *locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.rt.Lock(holdfast.EscapeName(l.prefix+key)).TryAcquire(ctx, l.acquire...)
	if err != nil {
		return nil, err
	}
	return lock{lease}, nil
}

type lock struct{ lease *holdfast.Lease }

// Unlock is called after the run. The context may have ended by then; Release works all the same.
func (l lock) Unlock(ctx context.Context) error { return l.lease.Release(ctx) }

// NewElector makes an Elector for gocron.WithDistributedElector: jobs run only while e leads. Call e.Run as well, in a goroutine,
// and handle its error: once Run has returned, no job runs in this process, and gocron does not report that.
//
// When a run begins, the Elector checks whether e leads. A run that is in progress when the term ends is not stopped.
func NewElector(e *holdfast.Election) gocron.Elector { return elector{e} }

type elector struct{ election *holdfast.Election }

// IsLeader is called before each run.
func (e elector) IsLeader(context.Context) error {
	if !e.election.IsLeader() {
		return errNotLeader
	}
	return nil
}

var errNotLeader = errors.New("this process does not lead")
