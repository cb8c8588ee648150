package promises_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// promptly is the longest time that may pass from the end of an at-least time until the first waiter gets the lock.
const promptly = 30 * time.Millisecond

// inBubble runs a test for each kind of lock whose leases may have bounds, with two processes.
func inBubble(t *testing.T, test func(t *testing.T, server *holdfasttest.Server, kind locktest.Kind, one, other *holdfast.Runtime)) {
	t.Parallel()
	for _, kind := range bounded() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := holdfasttest.New(t)
				test(t, server, kind, server.Runtime(), server.Runtime())
			})
		})
	}
}

// If a lock is released before its at-least time is over, it stays taken for everybody until that time is over. Waiters in any process then get the
// lock promptly. The holder's lease ends at the release, without an event.
func TestAtLeast_ReleasedLockStaysTaken(t *testing.T) {
	t.Parallel()
	for _, kind := range bounded() {
		for _, c := range []struct{ least, held time.Duration }{
			{50 * time.Millisecond, 0}, {500 * time.Millisecond, 20 * time.Millisecond}, {10 * time.Second, time.Second},
			{100 * time.Second, 50 * time.Second}, {100 * time.Second, 95 * time.Second}, {time.Second, 3 * time.Second},
		} {
			for waiter, here := range map[string]bool{"here": true, "elsewhere": false} {
				t.Run(kind.Name+" "+c.least.String()+" "+c.held.String()+" "+waiter, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						server := holdfasttest.New(t)
						one := server.Runtime(holdfast.Options{OnEvent: func(e holdfast.Event) { t.Errorf("%v", e) }})
						other := server.Runtime()
						began := time.Now()
						held, err := kind.Lock(one, "orders").Acquire(t.Context(), holdfast.WithAtLeast(c.least))
						require.NoError(t, err)
						waiting := kind.Lock(map[bool]*holdfast.Runtime{true: one, false: other}[here], "orders").AcquireAsync(t.Context())
						<-time.After(c.held)
						synctest.Wait()
						require.NoError(t, held.Release(t.Context()))
						require.ErrorIs(t, held.Err(), holdfast.ErrNotHeld)
						require.False(t, held.Valid())
						assert.Less(t, time.Since(began), c.held+time.Millisecond)
						if c.held < c.least {
							for _, rt := range []*holdfast.Runtime{one, other} {
								_, err = kind.Lock(rt, "orders").TryAcquire(t.Context())
								assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
							}
						}
						next, err := waiting.Lease()
						require.NoError(t, err)
						end := max(c.least, c.held)
						assert.GreaterOrEqual(t, time.Since(began), end)
						assert.Less(t, time.Since(began), end+promptly)
						assert.NotEqual(t, held.ID(), next.ID())
						require.NoError(t, next.Release(t.Context()))
						again, err := kind.Lock(other, "orders").TryAcquire(t.Context())
						require.NoError(t, err)
						require.NoError(t, again.Release(t.Context()))
					})
				})
			}
		}
	}
}

// The error of a refused try says how long the lock stays taken.
func TestAtLeast_TryKnowsTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *holdfasttest.Server, kind locktest.Kind, one, other *holdfast.Runtime) {
		require.NoError(t, kind.Lock(one, "orders").Do(t.Context(), func(context.Context) error { return nil }, holdfast.WithAtLeast(10*time.Second)))
		<-time.After(4 * time.Second)
		for _, rt := range []*holdfast.Runtime{one, other} {
			_, err := kind.Lock(rt, "orders").TryAcquire(t.Context())
			var busy *holdfast.BusyError
			require.ErrorAs(t, err, &busy)
			assert.InDelta(t, 6, busy.TTL.Seconds(), 0.1)
			assert.Equal(t, rt == one, busy.Local)
		}
	})
}

// Close does not wait for the end of an at-least time, and leaves the lock taken until then. The death of the process does not free the lock
// sooner either.
func TestAtLeast_OutlivesItsProcess(t *testing.T) {
	t.Parallel()
	for _, kind := range bounded() {
		for _, least := range []time.Duration{time.Second, 20 * time.Second, 100 * time.Second} {
			for how, end := range map[string]func(server *holdfasttest.Server, rt *holdfast.Runtime) error{
				"closed": func(_ *holdfasttest.Server, rt *holdfast.Runtime) error { return rt.Close(context.Background()) },
				"dead":   func(server *holdfasttest.Server, rt *holdfast.Runtime) error { server.Cut(rt); return nil },
			} {
				t.Run(kind.Name+" "+least.String()+" "+how, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						server := holdfasttest.New(t)
						one, other := server.Runtime(), server.Runtime()
						began := time.Now()
						held, err := kind.Lock(one, "orders").Acquire(t.Context(), holdfast.WithAtLeast(least))
						require.NoError(t, err)
						waiting := kind.Lock(other, "orders").AcquireAsync(t.Context())
						<-time.After(least / 2)
						synctest.Wait()
						require.NoError(t, end(server, one))
						assert.Less(t, time.Since(began), least/2+time.Millisecond)
						next, err := waiting.Lease()
						require.NoError(t, err)
						assert.GreaterOrEqual(t, time.Since(began), least)
						assert.LessOrEqual(t, time.Since(began), max(least+promptly, least/2+31*time.Second))
						assert.Error(t, held.Err())
						require.NoError(t, next.Release(t.Context()))
					})
				})
			}
		}
	}
}

// A lost lease does not free the lock before the end of its at-least time. A forced release does.
func TestAtLeast_LostLeaseKeepsTheLockTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, server *holdfasttest.Server, kind locktest.Kind, one, other *holdfast.Runtime) {
		began := time.Now()
		held, err := kind.Lock(one, "orders").Acquire(t.Context(), holdfast.WithAtLeast(60*time.Second))
		require.NoError(t, err)
		server.Cut(one)
		<-held.Done()
		assert.Less(t, time.Since(began), 30*time.Second, "at the deadline of its lease")
		server.Heal(one)
		next, err := kind.Lock(one, "orders").Acquire(t.Context(), holdfast.WithAtLeast(time.Minute))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(began), time.Minute)
		// The lost grant is released in the background. Before that, a probe must find Redis again, which takes a second, and go-redis must dial,
		// which takes at most half a second.
		assert.Less(t, time.Since(began), time.Minute+1500*time.Millisecond+promptly)

		require.NoError(t, next.Release(t.Context()))
		freed, err := kind.Lock(other, "orders").ForceRelease(t.Context())
		require.NoError(t, err)
		assert.True(t, freed)
		next, err = kind.Lock(other, "orders").TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, next.Release(t.Context()))
	})
}

// If an owner re-enters with another at-least time, the lock stays taken until both at-least times are over. The re-entry's acquire returns only
// when the lock's TTL in Redis is long enough for that.
func TestAtLeast_ReentryMovesTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, server *holdfasttest.Server, kind locktest.Kind, one, other *holdfast.Runtime) {
		for _, c := range []struct {
			first  []holdfast.AcquireOption
			second time.Duration
			end    time.Duration
		}{
			{[]holdfast.AcquireOption{holdfast.WithAtLeast(10 * time.Second)}, 20 * time.Second, 22 * time.Second},
			{[]holdfast.AcquireOption{holdfast.WithAtLeast(10 * time.Second)}, 5 * time.Second, 10 * time.Second},
			{nil, 5 * time.Second, 7 * time.Second},
			{nil, time.Hour, time.Hour + 2*time.Second},
			{[]holdfast.AcquireOption{holdfast.WithAtMost(10 * time.Second)}, time.Minute, time.Minute + 2*time.Second},
			{[]holdfast.AcquireOption{holdfast.WithLease(5 * time.Second)}, time.Minute, time.Minute + 2*time.Second},
		} {
			owner := holdfast.WithOwner(one.NewOwner())
			began := time.Now()
			first, err := kind.Lock(one, "orders").Acquire(t.Context(), append(c.first, owner)...)
			require.NoError(t, err)
			<-time.After(2 * time.Second)
			second, err := kind.Lock(one, "orders").Acquire(t.Context(), owner, holdfast.WithAtLeast(c.second))
			require.NoError(t, err)
			left := func() time.Duration { return server.Client().PTTL(t.Context(), "orders").Val() }
			assert.GreaterOrEqual(t, left(), c.end-2*time.Second-time.Millisecond)
			require.NoError(t, second.Release(t.Context()))
			<-time.After(c.end / 2)
			synctest.Wait()
			assert.GreaterOrEqual(t, left(), c.end-2*time.Second-c.end/2-time.Millisecond, "renewals do not shorten it")
			err = first.Release(t.Context())
			assert.True(t, err == nil || errors.Is(err, holdfast.ErrLeaseLost), "%v", err)

			next, err := kind.Lock(other, "orders").Acquire(t.Context())
			require.NoError(t, err)
			assert.GreaterOrEqual(t, time.Since(began), c.end)
			assert.Less(t, time.Since(began), c.end+promptly)
			require.NoError(t, next.Release(t.Context()))
		}
	})
}

// A fixed lease may have an at-least time, which Extend cannot shorten.
func TestAtLeast_OfAFixedLease(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *holdfasttest.Server, kind locktest.Kind, one, other *holdfast.Runtime) {
		for _, extend := range []bool{true, false} {
			began := time.Now()
			held, err := kind.Lock(one, "orders").Acquire(t.Context(), holdfast.WithAtLeast(10*time.Second), holdfast.WithLease(20*time.Second))
			require.NoError(t, err)
			if extend {
				require.NoError(t, held.Extend(t.Context(), time.Second))
				<-time.After(5 * time.Second)
				assert.True(t, held.Valid())
			}
			require.NoError(t, held.Release(t.Context()))
			next, err := kind.Lock(other, "orders").Acquire(t.Context())
			require.NoError(t, err)
			assert.GreaterOrEqual(t, time.Since(began), 10*time.Second)
			assert.Less(t, time.Since(began), 10*time.Second+promptly)
			require.NoError(t, next.Release(t.Context()))
		}
	})
}

// The at-least time of a multi lock begins for all members when the last member is acquired. If the acquire gives up before that, the members that
// it has acquired are free at once.
func TestAtLeast_OfAMultiLock(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(...*holdfast.Lock) *holdfast.MultiLock{"multi": holdfast.Multi, "red": holdfast.Red} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := holdfasttest.New(t)
				one, other := server.Runtime(), server.Runtime()
				members := func(rt *holdfast.Runtime) []*holdfast.Lock {
					return []*holdfast.Lock{rt.Lock("a"), rt.FencedLock("b"), rt.RWLock("c").Write()}
				}
				for _, least := range []time.Duration{10 * time.Second, 5 * time.Minute} {
					free := server.HeldElsewhere("b")
					if name == "red" {
						free2 := server.HeldElsewhere("a")
						free1 := free
						free = func() { free1(); free2() }
					}
					_, err := of(members(one)...).TryAcquire(t.Context(), holdfast.WithAtLeast(least))
					require.ErrorIs(t, err, holdfast.ErrNotAcquired)
					synctest.Wait()
					again, err := other.RWLock("c").Write().TryAcquire(t.Context())
					require.NoError(t, err)
					require.NoError(t, again.Release(t.Context()))

					time.AfterFunc(time.Second, free)
					all, err := of(members(one)...).Acquire(t.Context(), holdfast.WithAtLeast(least))
					require.NoError(t, err)
					began := time.Now()
					require.NoError(t, all.Release(t.Context()))
					assert.Zero(t, time.Since(began))
					for _, lock := range members(other) {
						_, err := lock.TryAcquire(t.Context())
						assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
					}
					next, err := holdfast.Multi(members(other)...).Acquire(t.Context())
					require.NoError(t, err)
					assert.GreaterOrEqual(t, time.Since(began), least)
					assert.Less(t, time.Since(began), least+promptly)
					require.NoError(t, next.Release(t.Context()))
				}
			})
		})
	}
}

// If a writer's owner also reads, the at-least time still keeps everybody else out, readers too. After that time, the lock becomes a read
// lock.
func TestAtLeast_OfAWriterWhoReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		one, other := server.Runtime(), server.Runtime()
		for _, readsLonger := range []bool{true, false} {
			owner := holdfast.WithOwner(one.NewOwner())
			began := time.Now()
			writer, err := one.RWLock("orders").Write().Acquire(t.Context(), owner, holdfast.WithAtLeast(40*time.Second))
			require.NoError(t, err)
			reader, err := one.RWLock("orders").Read().Acquire(t.Context(), owner)
			require.NoError(t, err)
			require.NoError(t, writer.Release(t.Context()))
			if !readsLonger {
				require.NoError(t, reader.Release(t.Context()))
			}
			next, err := other.RWLock("orders").Read().Acquire(t.Context())
			require.NoError(t, err)
			assert.GreaterOrEqual(t, time.Since(began), 40*time.Second)
			assert.Less(t, time.Since(began), 40*time.Second+promptly)
			if readsLonger {
				assert.True(t, reader.Valid())
				require.NoError(t, reader.Release(t.Context()))
			}
			require.NoError(t, next.Release(t.Context()))
		}

		owner := holdfast.WithOwner(one.NewOwner())
		writer, err := one.RWLock("orders").Write().Acquire(t.Context(), owner, holdfast.WithAtLeast(time.Hour))
		require.NoError(t, err)
		_, err = one.RWLock("orders").Read().Acquire(t.Context(), owner)
		require.NoError(t, err)
		require.NoError(t, writer.Release(t.Context()))
		closed := time.Now()
		require.NoError(t, one.Close(t.Context()))
		assert.Zero(t, time.Since(closed))
		assert.InDelta(t, time.Hour, server.Client().PTTL(t.Context(), "orders").Val(), float64(time.Second))
	})
}

// An invalid option is rejected before anything is sent.
func TestAtLeast_Invalid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := holdfasttest.New(t).Runtime()
		refused := func(lock interface {
			Acquire(context.Context, ...holdfast.AcquireOption) (*holdfast.Lease, error)
		}, options ...holdfast.AcquireOption) {
			t.Helper()
			_, err := lock.Acquire(context.Background(), options...)
			assert.ErrorIs(t, err, holdfast.ErrInvalid)
		}
		for _, d := range []time.Duration{-1, 0, 49 * time.Millisecond, 25 * time.Hour} {
			refused(rt.Lock("orders"), holdfast.WithAtLeast(d))
		}
		second := holdfast.WithAtLeast(time.Second)
		refused(rt.SpinLock("orders"), second)
		refused(rt.RWLock("orders").Read(), second)
		refused(rt.PermitSemaphore("permits"), second)
		refused(holdfast.Multi(rt.Lock("a"), rt.SpinLock("b")), second)
		refused(rt.Lock("orders"), second, holdfast.WithAtMost(999*time.Millisecond))
		refused(rt.Lock("orders"), second, holdfast.WithLease(999*time.Millisecond))
		lease, err := rt.Lock("orders").Acquire(t.Context(), second, holdfast.WithAtMost(time.Second), holdfast.WithRenewedLease(100*time.Millisecond))
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	})
}
