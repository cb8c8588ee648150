package promises_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// sleepyClock is the clock of a machine that can be suspended: while it is suspended, time passes, but no timer fires.
type sleepyClock struct {
	clock.System
	slept *atomic.Int64
}

func (c sleepyClock) Now() time.Duration { return c.System.Now() + time.Duration(c.slept.Load()) }

// sleeper is a runtime on a machine that can be suspended.
type sleeper struct {
	*holdfast.Runtime
	clock  sleepyClock
	events locktest.Recorder
	answer atomic.Pointer[heldAnswer] // the answer to hold back, or nil if there is none
}

func newSleeper(t *testing.T, p *locktest.Place, options holdfast.Options) *sleeper {
	s := &sleeper{clock: sleepyClock{clock.NewSystem(), new(atomic.Int64)}}
	options.Logger, options.OnEvent = locktest.Quiet(), s.events.Record
	client := p.Client(t)
	switch c := client.(type) {
	case *redis.Client:
		c.AddHook(s)
	case *redis.ClusterClient:
		c.OnNewNode(func(node *redis.Client) { node.AddHook(s) })
	}
	options.System = locktest.SystemWith(t, &actors.Seams{Clock: s.clock})
	s.Runtime = locktest.NewRuntime(t, client, options)
	return s
}

// suspend suspends the machine for d: its clock jumps forward. No time passes in Redis, so the test itself deletes the keys that would have expired.
func (s *sleeper) suspend(d time.Duration) { s.clock.slept.Add(int64(d)) }

// heldAnswer is an answer of the server that is held back.
type heldAnswer struct {
	about      func(commands []redis.Cmder) bool
	came, goOn chan struct{}
}

// holdAnswer holds back one answer until the test closes goOn. It chooses the next answer that is about the place's lock and arrives while the lock
// is held. Other answers pass, for example those of a cluster's other nodes.
func (s *sleeper) holdAnswer(t *testing.T, p *locktest.Place) *heldAnswer {
	about := func(commands []redis.Cmder) bool {
		return slices.ContainsFunc(commands, func(c redis.Cmder) bool { return strings.Contains(c.String(), p.Name) }) && p.Exists(t)
	}
	held := &heldAnswer{about, make(chan struct{}), make(chan struct{})}
	s.answer.Store(held)
	return held
}

func (s *sleeper) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *sleeper) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *sleeper) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		if held := s.answer.Load(); held != nil && held.about(commands) && s.answer.CompareAndSwap(held, nil) {
			close(held.came)
			<-held.goOn
		}
		return err
	}
}

func TestSuspended_HolderKnowsWhenItWakes(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]holdfast.AcquireOption{
		"renewed": nil, "fixed": {holdfast.WithLease(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) { showWakingHolder(t, p, options) })
		})
	}
}

func showWakingHolder(t *testing.T, p *locktest.Place, options []holdfast.AcquireOption) {
	stalls := locktest.WatchStalls(t, p)
	s := newSleeper(t, p, holdfast.Options{Lease: time.Minute})
	lease := locktest.Acquire(t, p.Lock(s.Runtime), options...)
	var waiter *holdfast.Pending
	wait := func() { waiter = p.Lock(s.Runtime).AcquireAsync(t.Context()) }
	if !p.Kind.Queued {
		wait()
	}
	require.True(t, lease.Valid())

	require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
	next := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
	if p.Kind.Queued { // the waiter must queue behind the holder of `next`
		wait()
	}
	woke := time.Now()
	s.suspend(2 * time.Hour)

	assert.False(t, lease.Valid(), "the first look")
	stalls.Take()
	told := locktest.Closed(t, "Done", lease.Done()).Sub(woke)
	assert.LessOrEqual(t, told, time.Second+stalls.Slack())
	assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
	assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
	locktest.Await(t, "the event", func() bool { return len(locktest.Recorded[holdfast.LeaseLost](&s.events)) == 1 })
	assert.Equal(t, holdfast.LossExpired, locktest.Recorded[holdfast.LeaseLost](&s.events)[0].Reason)
	assert.Contains(t, p.Fields(t), next.ID(), "the next holder is left alone")
	assert.True(t, next.Valid())
	locktest.Release(t, next)

	after, err := waiter.Lease()
	require.NoError(t, err, "the waiter keeps waiting")
	assert.True(t, after.Valid())
	assert.InDelta(t, time.Minute.Seconds(), time.Until(after.ExpiresAt()).Seconds(), 20, "the lease counts from after the sleep")
	locktest.Release(t, after)
}

// A holder learns of the loss about a second after the machine resumes, however long the lease is. A waiter would make the lock's actor check the
// clock, but the test has no waiter: the holder learns of the loss without one.
func TestSuspended_DoneFollowsWithinASecond(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{time.Second, 14 * time.Second, time.Minute} { // the first two are much shorter than Options.Lease
		t.Run(lease.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clock := sleepyClock{clock.NewSystem(), new(atomic.Int64)}
				options := holdfast.Options{Lease: time.Minute, System: locktest.SystemWith(t, &actors.Seams{Clock: clock})}
				held, err := locktest.NewBubble(t).Runtime(t, &locktest.Pipes{}, options).Lock("orders").Acquire(t.Context(), holdfast.WithRenewedLease(lease))
				require.NoError(t, err)
				synctest.Wait()
				woke := time.Now()
				clock.slept.Add(int64(2 * time.Hour))
				<-held.Done()
				assert.LessOrEqual(t, time.Since(woke), 1024*time.Millisecond, "a turn of the watchdog's wheel for short leases")
				assert.ErrorIs(t, held.Err(), holdfast.ErrLeaseLost)
			})
		})
	}
}

// An acquire right after the machine resumes does not hide the loss of an earlier lease, and its own lease is renewed.
func TestSuspended_AcquireAtOnceAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := sleepyClock{clock.NewSystem(), new(atomic.Int64)}
		options := holdfast.Options{Lease: time.Minute, System: locktest.SystemWith(t, &actors.Seams{Clock: clock})}
		rt := locktest.NewBubble(t).Runtime(t, &locktest.Pipes{}, options)
		held, err := rt.Lock("orders").Acquire(t.Context(), holdfast.WithLease(time.Hour))
		require.NoError(t, err)
		synctest.Wait()
		woke := time.Now()
		clock.slept.Add(int64(2 * time.Hour))
		next, err := rt.Lock("reports").Acquire(t.Context())
		require.NoError(t, err)
		<-held.Done()
		assert.LessOrEqual(t, time.Since(woke), 1100*time.Millisecond)
		<-time.After(3 * time.Minute)
		assert.True(t, next.Valid())
		require.NoError(t, next.Release(t.Context()))
	})
}

// A short sleep shortens the lease by the length of the sleep and no more. The lease is renewed as before.
func TestSuspended_ShortSleepShortensTheLease(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		s := newSleeper(t, p, holdfast.Options{Lease: time.Minute})
		lease := locktest.Acquire(t, p.Lock(s.Runtime))
		left := time.Until(lease.ExpiresAt())
		require.NoError(t, p.Redis.PExpire(t.Context(), p.Name, 30*time.Second).Err())
		s.suspend(30 * time.Second)
		assert.True(t, lease.Valid())
		assert.LessOrEqual(t, time.Until(lease.ExpiresAt()), left-30*time.Second)

		locktest.Await(t, "the renewal that was due", func() bool { return time.Until(lease.ExpiresAt()) > 35*time.Second })
		assert.Greater(t, p.Redis.PTTL(t.Context(), p.Name).Val(), 35*time.Second)
		locktest.Release(t, lease)
		assert.False(t, p.Exists(t))
	})
}

// A request is sent before the machine sleeps, and its answer is handled after the sleep. If the lease that Redis granted or renewed has ended by
// then, the answer makes nobody a holder.
func TestSuspended_AnswersFromBeforeTheSleep(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		t.Run("renewal", func(t *testing.T) {
			t.Parallel()
			p := p.Another(t)
			s := newSleeper(t, p, holdfast.Options{Lease: 3 * time.Second})
			lease := locktest.Acquire(t, p.Lock(s.Runtime))
			held := s.holdAnswer(t, p)
			locktest.Closed(t, "an answer", held.came)
			s.suspend(time.Minute)
			close(held.goOn)
			assert.False(t, lease.Valid())
			locktest.Closed(t, "Done", lease.Done())
			assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
			assert.False(t, lease.Valid())
			locktest.Await(t, "the key's end", func() bool { return !p.Exists(t) })
		})
		t.Run("acquire", func(t *testing.T) {
			t.Parallel()
			p := p.Another(t)
			s := newSleeper(t, p, holdfast.Options{Lease: 10 * time.Second})
			locktest.Release(t, locktest.Acquire(t, p.Another(t).Lock(s.Runtime))) // loads the scripts
			held := s.holdAnswer(t, p)
			pending := p.Lock(s.Runtime).AcquireAsync(t.Context())
			locktest.Closed(t, "an answer", held.came)
			locktest.Await(t, "the grant", func() bool { return p.Exists(t) })
			first := p.Fields(t)
			s.suspend(time.Minute)
			close(held.goOn)
			lease, err := pending.Lease()
			require.NoError(t, err)
			assert.True(t, lease.Valid())
			assert.NotContains(t, first, lease.ID(), "the lease has a new grant, because the first one was over")
			locktest.Release(t, lease)
			locktest.Await(t, "the key's end", func() bool { return !p.Exists(t) })
		})
	})
}
