package kinds_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { childproc.Register("permit-holder", holdPermits) }

// holdPermits takes two permits and keeps them until its process is killed.
func holdPermits() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("ADDR")})
	rt, err := holdfast.New(client, holdfast.Options{Lease: time.Second, Logger: locktest.Quiet()})
	if err != nil {
		panic(err)
	}
	for range 2 {
		lease, err := rt.PermitSemaphore(os.Getenv("LOCK")).Acquire(context.Background())
		if err != nil {
			panic(err)
		}
		defer runtime.KeepAlive(lease)
	}
	fmt.Println("held")
	bufio.NewScanner(os.Stdin).Scan()
}

// There are never more holders than permits, across goroutines and runtimes, and no permit is lost.
func TestPermitSemaphore_NeverMoreHoldersThanPermits(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, showPermits)
}

func showPermits(t *testing.T, p *locktest.Place) {
	const permits = 5
	look, name := p.Redis, p.Name
	require.NoError(t, look.Set(t.Context(), name, permits, 0).Err())
	var holders atomic.Int64
	var most locktest.Most
	var ids sync.Map
	var all sync.WaitGroup
	for range 3 {
		rt := p.Runtime(t, holdfast.Options{})
		for range 8 {
			all.Go(func() {
				for range locktest.Scaled(400, 30) {
					lease, err := rt.PermitSemaphore(name).Acquire(t.Context())
					if !assert.NoError(t, err) {
						return
					}
					_, known := ids.LoadOrStore(lease.ID(), true)
					assert.False(t, known, "the next holder in a process has a permit of its own")
					most.Note(holders.Add(1))
					look.Ping(t.Context())
					holders.Add(-1)
					assert.NoError(t, lease.Release(t.Context()))
				}
			})
		}
	}
	all.Wait()
	t.Logf("at most %d of %d permits at once", most.Load(), permits)
	assert.LessOrEqual(t, most.Load(), int64(permits))
	assert.Greater(t, most.Load(), int64(1), "several permits are held at once")
	assert.Equal(t, fmt.Sprint(permits), look.Get(t.Context(), name).Val())
	assert.Zero(t, look.ZCard(t.Context(), "{"+name+"}:timeout").Val())
}

// The permits of a process that dies are free again within its lease plus ten seconds.
func TestPermitSemaphore_DeadHoldersPermitsComeBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := redistest.Name(t)
	require.NoError(t, server.Client(t).Set(t.Context(), name, 2, 0).Err())
	child := childproc.Run(t, "permit-holder", "ADDR="+server.Addr(), "LOCK="+name)
	require.Equal(t, "held", child.Line())
	rt := locktest.NewRuntime(t, server.Client(t), holdfast.Options{})
	_, err := rt.PermitSemaphore(name).TryAcquire(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	child.Kill()
	start := time.Now()
	lease := locktest.AcquirePermit(t, rt.PermitSemaphore(name))
	took := time.Since(start)
	t.Logf("back after %v", took)
	assert.Less(t, took, 13*time.Second, "a lease, ten seconds, and the time until the waiter polls")
	locktest.Release(t, lease)
}

// The watchdog renews permits. A permit with a fixed lease expires, and its holder learns of that. When the renewed permit has been released,
// Redis counts all permits as free.
func TestPermitSemaphore_Leases(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, showPermitLeases)
}

func showPermitLeases(t *testing.T, p *locktest.Place) {
	lease := locktest.Unhurried(600 * time.Millisecond)
	look, name := p.Redis, p.Name
	require.NoError(t, look.Set(t.Context(), name, 3, 0).Err())
	rt := p.Runtime(t, holdfast.Options{Lease: lease})
	s := rt.PermitSemaphore(name)
	renewed, fixed := locktest.AcquirePermit(t, s), locktest.AcquirePermit(t, s, holdfast.WithLease(lease))
	assert.Len(t, renewed.ID(), 32)
	assert.NotEqual(t, renewed.ID(), fixed.ID())
	assert.ErrorIs(t, renewed.Extend(t.Context(), time.Second), holdfast.ErrInvalid)
	require.NoError(t, fixed.Extend(t.Context(), 2*lease))
	locktest.Closed(t, "the end of the fixed lease", fixed.Done())
	assert.ErrorIs(t, fixed.Err(), holdfast.ErrLeaseLost)
	locktest.Stays(t, "the other lease is renewed", 2*lease, renewed.Valid)
	locktest.Release(t, renewed)
	locktest.Await(t, "all permits", func() bool { return look.Get(t.Context(), name).Val() == "3" })

	lost := locktest.AcquirePermit(t, s)
	require.NoError(t, look.ZRem(t.Context(), "{"+name+"}:timeout", look.ZRange(t.Context(), "{"+name+"}:timeout", 0, 0).Val()).Err())
	locktest.Closed(t, "the loss", lost.Done())
	assert.ErrorIs(t, lost.Release(t.Context()), holdfast.ErrLeaseLost)
}

// A waiter that receives no message polls once a second.
func TestPermitSemaphore_ProgressWithoutNotifications(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	stalls := locktest.WatchStalls(t, p)
	s := p.Runtime(t, holdfast.Options{}).PermitSemaphore(p.Name)
	require.NoError(t, s.SetPermits(t.Context(), 1))
	holder := locktest.AcquirePermit(t, s)
	deaf := locktest.NewRuntime(t, locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Dialer: locktest.DialDeaf}), holdfast.Options{})
	waiting := make(chan *holdfast.Lease, 1)
	go func() {
		lease, err := deaf.PermitSemaphore(p.Name).Acquire(t.Context())
		assert.NoError(t, err)
		waiting <- lease
	}()
	subscribers(t, p, semaphoreChannel(p), 1)
	start := time.Now()
	locktest.Release(t, holder)
	lease := <-waiting
	assert.LessOrEqual(t, time.Since(start), 1300*time.Millisecond+stalls.Slack())
	require.NotNil(t, lease)
	locktest.Release(t, lease)
}

// As long as the permits are not set, an acquire with a time limit returns an error that says so. An acquire without a limit waits until they are
// set.
func TestPermitSemaphore_NeverSet(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		s := rt.PermitSemaphore(p.Name)
		tried := func() error { _, err := s.TryAcquire(t.Context()); return err }
		bounded := func() error {
			_, err := s.Acquire(t.Context(), holdfast.WithWait(200*time.Millisecond))
			return err
		}
		const never = "SetPermits was never called"
		for range 2 {
			assert.ErrorIs(t, tried(), holdfast.ErrNotAcquired)
			assert.ErrorContains(t, tried(), never)
			locktest.Await(t, "Redis to answer within the wait", func() bool {
				err := bounded()
				require.ErrorIs(t, err, holdfast.ErrNotAcquired)
				return strings.Contains(err.Error(), never)
			})
			waiting := make(chan *holdfast.Lease, 1)
			go func() {
				lease, err := s.Acquire(t.Context())
				assert.NoError(t, err)
				waiting <- lease
			}()
			subscribers(t, p, semaphoreChannel(p), 1)
			require.NoError(t, s.SetPermits(t.Context(), 1))
			var lease *holdfast.Lease
			select {
			case lease = <-waiting:
			case <-time.After(locktest.Patience):
				require.Fail(t, "the acquire still waits")
			}
			var busy *holdfast.BusyError
			assert.ErrorAs(t, tried(), &busy)
			assert.ErrorAs(t, bounded(), &busy)
			locktest.Release(t, lease)
			deleted, err := s.Delete(t.Context())
			require.NoError(t, err)
			require.True(t, deleted)
		}
	})
}

// Available, Acquired and Permits follow what is set, added, acquired and released. ReleaseID works from any process, and releases either all ids or
// none.
func TestPermitSemaphore_Numbers(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, showPermitNumbers)
}

func showPermitNumbers(t *testing.T, p *locktest.Place) {
	rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
	s, ctx := rt.PermitSemaphore(p.Name), t.Context()
	numbers := func(free, out, all int) {
		t.Helper()
		for what, want := range map[string]int{"free": free, "out": out, "all": all} {
			read := map[string]func(context.Context) (int, error){"free": s.Available, "out": s.Acquired, "all": s.Permits}[what]
			n, err := read(ctx)
			require.NoError(t, err)
			require.Equal(t, want, n, what)
		}
	}
	numbers(0, 0, 0)
	set, err := s.TrySetPermits(ctx, 3)
	require.NoError(t, err)
	require.True(t, set)
	set, err = s.TrySetPermits(ctx, 5)
	require.NoError(t, err)
	require.False(t, set)
	first, second := locktest.AcquirePermit(t, s), locktest.AcquirePermit(t, s)
	numbers(1, 2, 3)
	require.NoError(t, s.AddPermits(ctx, 2))
	numbers(3, 2, 5)
	require.NoError(t, s.SetPermits(ctx, 1))
	numbers(-1, 2, 1)
	require.NoError(t, s.SetPermits(ctx, 2))

	elsewhere := other.PermitSemaphore(s.Name())
	assert.ErrorIs(t, elsewhere.ReleaseID(ctx, first.ID(), "00000000000000000000000000000000"), holdfast.ErrNotHeld)
	assert.ErrorIs(t, elsewhere.ReleaseID(ctx, "no id"), holdfast.ErrInvalid)
	numbers(0, 2, 2)
	waiting := make(chan error, 1)
	go func() {
		lease, err := elsewhere.Acquire(ctx)
		if err == nil {
			err = lease.Release(ctx)
		}
		waiting <- err
	}()
	require.NoError(t, elsewhere.ReleaseID(ctx, first.ID(), second.ID()))
	require.NoError(t, <-waiting)
	assert.ErrorIs(t, first.Release(ctx), holdfast.ErrLeaseLost)
	numbers(2, 0, 2)
	deleted, err := s.Delete(ctx)
	require.NoError(t, err)
	assert.True(t, deleted)
	numbers(0, 0, 0)
	locktest.Await(t, "no key of the semaphore to be left", func() bool { return p.Redis.Exists(ctx, p.Name, "{"+p.Name+"}:timeout").Val() == 0 })
}

func TestPermitSemaphore_DoHoldsAPermitWhileFnRuns(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		permits := p.Runtime(t, holdfast.Options{}).PermitSemaphore(p.Name)
		never := func(context.Context) error { assert.Fail(t, "called"); return nil }
		assert.ErrorIs(t, permits.TryDo(t.Context(), never), holdfast.ErrNotAcquired, "nothing was set")
		require.NoError(t, permits.SetPermits(t.Context(), 2))
		failed := fmt.Errorf("fn failed")
		err := permits.Do(t.Context(), func(ctx context.Context) error {
			outer := holdfast.LeaseFromContext(ctx)
			return permits.TryDo(ctx, func(ctx context.Context) error {
				assert.NotEqual(t, outer.ID(), holdfast.LeaseFromContext(ctx).ID(), "each has a permit of its own")
				assert.ErrorIs(t, permits.TryDo(ctx, never), holdfast.ErrNotAcquired)
				assert.ErrorIs(t, permits.Do(ctx, never, holdfast.WithWait(time.Millisecond)), holdfast.ErrNotAcquired)
				assert.NoError(t, permits.ReleaseID(ctx, strings.ToUpper(holdfast.LeaseFromContext(ctx).ID())), "hexadecimal digits of either case")
				locktest.Closed(t, "the context", ctx.Done())
				assert.NoError(t, outer.Err())
				return failed
			})
		})
		assert.ErrorIs(t, err, failed)
		assert.ErrorIs(t, err, holdfast.ErrLeaseLost, "joined")
		assert.ErrorIs(t, permits.Do(t.Context(), nil), holdfast.ErrInvalid)
		assert.ErrorIs(t, permits.TryDo(t.Context(), nil), holdfast.ErrInvalid)
		free, err := permits.Available(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, free)
	})
}
