package gocron_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdgocron "github.com/holdfast-go/holdfast/contrib/gocron"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// replica is one process with a scheduler.
func replica(t *testing.T, o ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(append(o, gocron.WithStopTimeout(time.Minute))...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Shutdown()) })
	return s
}

// run makes a scheduler run a job once at the given instant, or immediately if that instant has passed. If gocron skips the run, it calls the
// function `skipped`.
func run(t *testing.T, s gocron.Scheduler, at time.Time, job func(), skipped func(error)) {
	t.Helper()
	schedule := func(start gocron.OneTimeJobStartAtOption) error {
		_, err := s.NewJob(gocron.OneTimeJob(start), gocron.NewTask(job), gocron.WithName("report"),
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { skipped(err) })))
		return err
	}
	err := schedule(gocron.OneTimeJobStartDateTime(at))
	if errors.Is(err, gocron.ErrOneTimeJobStartDateTimePast) {
		err = schedule(gocron.OneTimeJobStartImmediately())
	}
	require.NoError(t, err)
	s.Start()
}

// The clocks of three replicas differ by 100 ms, and the job takes no time. Without AtLeast, each replica would run the job.
func TestLocker_ShortJobsRunOnceAlsoIfClocksDiffer(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	var ran atomic.Int64
	skipped := make(chan error, 3)
	begin := time.Now().Add(50 * time.Millisecond)
	for i := range 3 {
		s := replica(t, gocron.WithDistributedLocker(holdgocron.NewLocker(redis.Runtime(), holdgocron.AtLeast(time.Minute))))
		run(t, s, begin.Add(time.Duration(i)*100*time.Millisecond), func() { ran.Add(1) }, func(err error) { skipped <- err })
	}
	for range 2 {
		assert.ErrorIs(t, <-skipped, holdfast.ErrNotAcquired)
	}
	assert.EqualValues(t, 1, ran.Load())
}

// If a job ends after gocron was stopped, gocron's context has already ended. The lock is released all the same.
func TestLocker_ReleasesAfterShutdown(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	s := replica(t, gocron.WithDistributedLocker(holdgocron.NewLocker(redis.Runtime(), holdgocron.Prefix("jobs/"))))
	running, end := make(chan struct{}), make(chan struct{})
	run(t, s, time.Now().Add(10*time.Millisecond), func() { close(running); <-end }, func(err error) { assert.NoError(t, err) })
	<-running
	other := redis.Runtime().Lock("jobs/report")
	_, err := other.TryAcquire(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	time.AfterFunc(10*time.Millisecond, func() { close(end) })
	require.NoError(t, s.StopJobs())
	lease, err := other.Acquire(t.Context(), holdfast.WithWait(time.Minute))
	require.NoError(t, err)
	assert.NoError(t, lease.Release(t.Context()))
}

// If Redis cannot be reached, a run is skipped. The error differs from the error for a taken lock.
func TestLocker_TellsAnOutageFromATakenLock(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	rt := redis.Runtime(holdfast.Options{Lease: time.Second})
	redis.Cut(rt)
	_, err := holdgocron.NewLocker(rt).Lock(t.Context(), "report")
	var busy *holdfast.BusyError
	assert.Error(t, err)
	assert.NotErrorAs(t, err, &busy)

	_, err = holdgocron.NewLocker(redis.Runtime(), holdgocron.AtLeast(-1)).Lock(t.Context(), "report")
	assert.ErrorIs(t, err, holdfast.ErrInvalid)
}

// One of two replicas leads. Only the leader runs the job.
func TestElector_OnlyTheLeaderRuns(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	leads, follows := redis.Runtime().Election("jobs", holdfast.ElectionOptions{}), redis.Runtime().Election("jobs", holdfast.ElectionOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	elected, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- leads.Run(ctx, func(ctx context.Context, _ holdfast.Term) error { close(elected); <-ctx.Done(); return nil })
	}()
	<-elected
	ran, skipped := make(chan string, 2), make(chan error, 2)
	for name, e := range map[string]*holdfast.Election{"leader": leads, "follower": follows} {
		elector := holdgocron.NewElector(e)
		s := replica(t, gocron.WithDistributedElector(elector))
		run(t, s, time.Now().Add(10*time.Millisecond), func() { ran <- name }, func(err error) { skipped <- err })
		if err := elector.IsLeader(t.Context()); name == "follower" {
			assert.EqualError(t, err, "this process does not lead")
		} else {
			assert.NoError(t, err)
		}
	}
	assert.Equal(t, "leader", <-ran)
	cancel()
	require.NoError(t, <-ended)
	assert.Error(t, holdgocron.NewElector(leads).IsLeader(t.Context()))
	assert.Empty(t, ran, "the follower")
}
