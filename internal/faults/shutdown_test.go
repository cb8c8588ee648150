package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

// shuttingDown is a Shutdown in progress.
type shuttingDown struct {
	done chan struct{}
	err  error
}

// waitedFor is a context that closes the channel `waits` as soon as somebody begins to wait for the end of the context.
type waitedFor struct {
	context.Context
	waits chan struct{}
	once  sync.Once
}

func (c *waitedFor) Done() <-chan struct{} {
	c.once.Do(func() { close(c.waits) })
	return c.Context.Done()
}

// shutDown calls Shutdown, and returns when Shutdown is waiting and the runtime refuses new acquires.
func shutDown(t *testing.T, ctx context.Context, rt *holdfast.Runtime) *shuttingDown {
	t.Helper()
	s, bound := &shuttingDown{done: make(chan struct{})}, &waitedFor{Context: ctx, waits: make(chan struct{})}
	go func() {
		s.err = rt.Shutdown(bound)
		close(s.done)
	}()
	locktest.Closed(t, "the beginning of Shutdown", bound.waits)
	locktest.Await(t, "the runtime to shut down", func() bool {
		lease, err := rt.Lock("refused:" + t.Name()).TryAcquire(context.Background())
		if err == nil {
			require.NoError(t, lease.Release(context.Background()))
		}
		return errors.Is(err, holdfast.ErrClosed)
	})
	return s
}

// ended waits for the end of Shutdown, and returns its error.
func (s *shuttingDown) ended(t *testing.T) error {
	t.Helper()
	locktest.Closed(t, "the end of Shutdown", s.done)
	return s.err
}

// endedContext returns a context that has ended.
func endedContext(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestShutdown_LetsHoldersGoOnAndNobodyElseIn(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{Lease: locktest.Unhurried(500 * time.Millisecond)}), p.Runtime(t, holdfast.Options{})
		owner := holdfast.WithOwner(rt.NewOwner())
		lease := locktest.Acquire(t, p.Lock(rt), owner)
		waiting := p.Lock(rt).AcquireAsync(t.Context())
		p.WaitForWaiting(t, rt, 1)
		elsewhere := p.Lock(other).AcquireAsync(t.Context())
		p.WaitForWaiting(t, other, 1)

		shutdown := shutDown(t, t.Context(), rt)

		_, err := waiting.Lease()
		require.ErrorIs(t, err, holdfast.ErrClosed, "at once")
		_, err = p.Lock(rt).Acquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrClosed)
		_, err = p.Lock(rt).AcquireAsync(t.Context()).Lease()
		require.ErrorIs(t, err, holdfast.ErrClosed)
		require.ErrorIs(t, p.Lock(rt).Do(t.Context(), func(context.Context) error { return nil }), holdfast.ErrClosed)
		locktest.Renewed(t, lease)
		again := locktest.Acquire(t, p.Lock(rt), owner)
		assert.Equal(t, lease.ID(), again.ID())
		locktest.Release(t, lease)
		assert.True(t, again.Valid())
		locktest.Open(t, "the end of Shutdown", shutdown.done)
		locktest.Open(t, "the grant elsewhere", elsewhere.Done())

		locktest.Release(t, again)

		require.NoError(t, shutdown.ended(t))
		next, err := elsewhere.Lease()
		require.NoError(t, err)
		locktest.Release(t, next)
		assert.False(t, p.Exists(t))
		_, err = p.Lock(rt).Acquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		assert.NoError(t, rt.Shutdown(t.Context()), "a second one")
		assert.NoError(t, rt.Shutdown(endedContext(t)), "a Shutdown with an ended context, too")
	})
}

func TestShutdown_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		var leases []*holdfast.Lease
		for i := range 12 {
			leases = append(leases, locktest.Acquire(t, p.Kind.Lock(rt, fmt.Sprintf("%s:%02d", p.Name, i))))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()

		err := rt.Shutdown(ctx)

		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, err.Error(), p.Name+":09")
		assert.NotContains(t, err.Error(), p.Name+":10")
		assert.Contains(t, err.Error(), "and 2 more")
		for _, lease := range leases {
			require.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
			assert.NoError(t, lease.Release(t.Context()))
			assert.Zero(t, p.Redis.Exists(t.Context(), lease.Name()).Val(), "all are released")
		}
	})
}

func TestShutdown_WithAnEndedContext(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		idle, busy := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		locktest.Release(t, locktest.Acquire(t, p.Lock(idle)))
		assert.NoError(t, idle.Shutdown(endedContext(t)), "nothing is held")

		lease := locktest.Acquire(t, p.Lock(busy))
		err := busy.Shutdown(endedContext(t))
		require.ErrorIs(t, err, context.Canceled)
		assert.Contains(t, err.Error(), p.Name)
		require.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
		assert.False(t, p.Exists(t))
	})
}

func TestShutdown_WaitsForAFixedLeaseUntilItExpires(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		lease := locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(300*time.Millisecond))
		until := lease.ExpiresAt()

		require.NoError(t, rt.Shutdown(t.Context()))

		assert.False(t, time.Now().Before(until))
		require.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
	})
}

func TestShutdown_OvertakenByClose(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		lease := locktest.Acquire(t, p.Lock(rt))
		shutdown := shutDown(t, t.Context(), rt)

		require.NoError(t, rt.Close(t.Context()))

		require.NoError(t, shutdown.ended(t))
		require.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
		assert.False(t, p.Exists(t))
	})
}

func TestShutdown_TwoAtOnce(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		lease := locktest.Acquire(t, p.Lock(rt))
		one, two := shutDown(t, t.Context(), rt), shutDown(t, t.Context(), rt)
		locktest.Release(t, lease)
		assert.NoError(t, one.ended(t))
		assert.NoError(t, two.ended(t))

		rt = p.Runtime(t, holdfast.Options{})
		locktest.Acquire(t, p.Lock(rt))
		ctx, cancel := context.WithCancel(t.Context())
		patient, one, two := shutDown(t, t.Context(), rt), shutDown(t, ctx, rt), shutDown(t, ctx, rt)
		cancel()
		assert.ErrorIs(t, one.ended(t), context.Canceled)
		assert.ErrorIs(t, two.ended(t), context.Canceled)
		if err := patient.ended(t); err != nil { // on a busy machine, a cancelled Shutdown may give up the release before Redis answers
			assert.ErrorContains(t, err, "the context of another call ended before everything was released")
		}
	})
}

// During a Shutdown no holder can acquire a second lock. Shutdown waits until the last of several held locks is released.
func TestShutdown_ManyLocksAndImpatientUsers(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		var leases []*holdfast.Lease
		for i := range 20 {
			leases = append(leases, locktest.Acquire(t, p.Kind.Lock(rt, fmt.Sprint(p.Name, i))))
		}
		shutdown := shutDown(t, t.Context(), rt)
		over, users := make(chan struct{}), sync.WaitGroup{}
		for i := range 20 {
			users.Go(func() {
				for {
					_, err := p.Kind.Lock(rt, fmt.Sprint(p.Name, i)).Acquire(context.Background())
					assert.ErrorIs(t, err, holdfast.ErrClosed)
					_, err = p.Kind.Lock(rt, fmt.Sprint(p.Name, "free", i)).TryAcquire(context.Background())
					assert.ErrorIs(t, err, holdfast.ErrClosed)
					select {
					case <-over:
						return
					case <-time.After(50 * time.Microsecond):
					}
				}
			})
		}
		for _, lease := range leases {
			locktest.Open(t, "the end of Shutdown", shutdown.done)
			locktest.Release(t, lease)
		}

		assert.NoError(t, shutdown.ended(t), "although users keep asking")

		close(over)
		users.Wait()
		assert.Empty(t, p.Keys(t))
	})
}

func TestShutdown_OfReadersAndPermits(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		book, seats := rt.RWLock(p.Name+"-book"), rt.PermitSemaphore(p.Name+"-seats")
		require.NoError(t, seats.SetPermits(t.Context(), 2))
		owner := holdfast.WithOwner(rt.NewOwner())
		writing := locktest.Acquire(t, book.Write(), owner)
		seat := locktest.AcquirePermit(t, seats)
		handedOut := locktest.AcquirePermit(t, other.PermitSemaphore(seats.Name()))
		sitting := make(chan error, 1)
		go func() {
			_, err := seats.Acquire(context.Background())
			sitting <- err
		}()

		shutdown := shutDown(t, t.Context(), rt)

		require.ErrorIs(t, <-sitting, holdfast.ErrClosed)
		reading := locktest.Acquire(t, book.Read(), owner)
		_, err := book.Read().Acquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrClosed)
		locktest.Release(t, writing)
		_, err = book.Write().Acquire(t.Context(), owner)
		require.ErrorIs(t, err, holdfast.ErrUpgrade)
		require.NoError(t, seats.ReleaseID(t.Context(), handedOut.ID()), "a release")
		locktest.Release(t, reading)
		locktest.Open(t, "the end of Shutdown", shutdown.done)
		locktest.Release(t, seat)
		require.NoError(t, shutdown.ended(t))
		free, err := other.PermitSemaphore(seats.Name()).Available(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, free)
	})
}

func TestShutdown_OfSemaphoresAndLatches(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		s, l := rt.Semaphore(p.Name+"-s"), rt.CountDownLatch(p.Name+"-l")
		_, err := s.TrySetPermits(t.Context(), 2)
		require.NoError(t, err)
		_, err = l.TrySetCount(t.Context(), 2)
		require.NoError(t, err)
		require.NoError(t, s.Acquire(t.Context(), 2))
		held := locktest.Acquire(t, rt.Lock(p.Name))
		answers := make(chan error, 2)
		go func() { answers <- s.Acquire(context.Background(), 1) }()
		go func() { answers <- l.Wait(context.Background()) }()
		for _, channel := range []string{"redisson_sc:{" + s.Name() + "}", "redisson_countdownlatch__channel__{" + l.Name() + "}"} {
			locktest.Await(t, "a waiter", func() bool { return p.Subscribers(t, channel) == 1 })
		}

		shutdown := shutDown(t, t.Context(), rt)

		require.ErrorIs(t, <-answers, holdfast.ErrClosed)
		require.ErrorIs(t, <-answers, holdfast.ErrClosed)
		require.ErrorIs(t, s.TryAcquire(t.Context(), 1), holdfast.ErrClosed)
		require.ErrorIs(t, l.Wait(t.Context()), holdfast.ErrClosed)
		_, err = s.Drain(t.Context())
		require.ErrorIs(t, err, holdfast.ErrClosed, "it takes permits")
		require.NoError(t, s.Release(t.Context(), 2))
		require.NoError(t, l.CountDown(t.Context()))
		left, err := s.Available(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, left)

		locktest.Release(t, held)
		require.NoError(t, shutdown.ended(t))
		require.ErrorIs(t, s.Release(t.Context(), 1), holdfast.ErrClosed, "the runtime is closed")
		count, err := other.CountDownLatch(l.Name()).Count(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, count)
		_, err = other.Semaphore(s.Name()).Delete(t.Context())
		assert.NoError(t, err)
		_, err = other.CountDownLatch(l.Name()).Delete(t.Context())
		assert.NoError(t, err)
	})
}

func TestShutdown_OfMultiLocks(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		a, b, c := p.Another(t).Name, p.Another(t).Name, p.Another(t).Name
		m := holdfast.Multi(p.Kind.Lock(rt, a), p.Kind.Lock(other, b))
		red := holdfast.Red(p.Kind.Lock(rt, c), p.Kind.Lock(rt, p.Name), p.Kind.Lock(rt, p.Another(t).Name))
		majority, err := red.Acquire(t.Context())
		require.NoError(t, err)
		section, leave := make(chan *shuttingDown), make(chan struct{})
		worked := make(chan error, 1)
		go func() {
			worked <- m.Do(context.Background(), func(ctx context.Context) error {
				section <- shutDown(t, context.Background(), rt)
				<-leave
				return m.Do(ctx, func(ctx context.Context) error { return ctx.Err() })
			})
		}()
		shutdown := <-section

		_, err = m.Acquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrClosed)
		_, err = red.TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrClosed)
		locktest.Release(t, majority)
		locktest.Open(t, "the end of Shutdown", shutdown.done)
		close(leave)

		require.NoError(t, <-worked, "it re-enters")
		require.NoError(t, shutdown.ended(t))
		locktest.Release(t, locktest.Acquire(t, p.Kind.Lock(other, b)))
	})
}

// A caller that calls Shutdown while it holds a lock of that runtime waits for itself, until ctx ends.
func TestShutdown_WithinDo(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		err := p.Lock(rt).Do(t.Context(), func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			err := rt.Shutdown(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Contains(t, err.Error(), p.Name)
			return nil
		})
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		assert.False(t, p.Exists(t))
	})
}

func TestShutdown_WithoutServer(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		lease := locktest.Acquire(t, p.Lock(rt))
		p.Server.Pause()
		defer p.Server.Resume()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()

		err := rt.Shutdown(ctx)

		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, err.Error(), p.Name)
		assert.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
	})
}

// A holder releases while Redis is away. Shutdown waits until the release is confirmed, and then reports no holder.
func TestShutdown_OverAnOutage(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		rt, proxy := p.Proxied(t, holdfast.Options{Lease: 3 * time.Second})
		lease := locktest.Acquire(t, p.Lock(rt))
		shutdown := shutDown(t, t.Context(), rt)
		proxy.Refuse(true)
		proxy.Cut()
		released := make(chan error, 1)
		go func() { released <- lease.Release(context.Background()) }()
		locktest.Closed(t, "the lease's end", lease.Done())
		locktest.Open(t, "the end of Shutdown", shutdown.done)

		proxy.Refuse(false)

		require.NoError(t, <-released)
		require.NoError(t, shutdown.ended(t))
		assert.False(t, p.Exists(t))
	})
}

// Shutdown treats the user's actors like goroutines: waiters are refused, holders continue, and the runtime ends with the last holder.
func TestShutdown_TellsActors(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{System: newSystem(t)})
		holder, waiting := locktest.NewActor(t, rt, p.Lock(rt)), locktest.NewActor(t, rt, p.Lock(rt))
		other := p.Another(t)
		mortal := locktest.NewActor(t, rt, other.Lock(rt))
		other.Hold(t, mortal, 1)
		granted := p.Hold(t, holder, 1)
		waiting.Ask(p.AcquireMessage(1))
		p.WaitForWaiting(t, rt, 1)

		shutdown := shutDown(t, t.Context(), rt)

		require.ErrorIs(t, locktest.Answer[*protocol.Refused](t, waiting).Err, holdfast.ErrClosed)
		waiting.Ask(p.AcquireMessage(2))
		require.ErrorIs(t, locktest.Answer[*protocol.Refused](t, waiting).Err, holdfast.ErrClosed)
		waiting.Ask(&protocol.Inspect{ID: 3, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name})
		inspected := locktest.Answer[*protocol.Inspected](t, waiting)
		require.NoError(t, inspected.Err)
		assert.True(t, inspected.State.Held)
		assert.True(t, granted.Valid())
		holder.Ask(p.ReleaseMessage(2, granted.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, holder).Err)
		locktest.Open(t, "the end of Shutdown", shutdown.done)
		mortal.Stop()
		require.NoError(t, shutdown.ended(t))
		assert.False(t, p.Exists(t))
		assert.False(t, other.Exists(t))
		holder.Ask(p.AcquireMessage(3))
		locktest.Answer[*actor.DeadLetterResponse](t, holder)
	})
}

// A Shutdown that begins while many calls are in flight waits for every caller that was granted a lock, and leaves nothing in Redis.
func TestShutdown_InTheMiddle(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		for i := range locktest.Scaled(40, 10) {
			p := p.Another(t)
			rt := p.Runtime(t, holdfast.Options{Handoff: holdfast.Handoff{Max: 1 + i%3}})
			var users sync.WaitGroup
			for j := range 1 + i%10 {
				var options []holdfast.AcquireOption
				if j%3 == 1 {
					options = append(options, holdfast.WithLease(time.Minute))
				}
				users.Go(func() {
					for {
						err := p.Lock(rt).Do(context.Background(), func(ctx context.Context) error { return ctx.Err() }, options...)
						if errors.Is(err, holdfast.ErrClosed) {
							return
						}
						assert.NoError(t, err)
					}
				})
			}
			if i%2 == 0 {
				locktest.Await(t, "the first grant", func() bool { return p.Exists(t) || i%4 == 0 })
			}

			require.NoError(t, rt.Shutdown(t.Context()), "the last section has ended")

			users.Wait()
			require.Empty(t, p.Keys(t))
		}
	})
}
