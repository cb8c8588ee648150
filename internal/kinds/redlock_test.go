package kinds_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// servers are several Redis servers with one lock name on all of them, each behind a proxy.
type servers struct {
	kind    locktest.Kind
	name    string
	all     []*redistest.Server
	proxies []*faultproxy.Proxy
}

// onServers runs a test for every kind of lock on n servers. Short runs and the race detector run it for the first kind only.
func onServers(t *testing.T, n int, show func(t *testing.T, s *servers)) {
	for _, kind := range locktest.Kinds[:locktest.Scaled(len(locktest.Kinds), 1)] {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			show(t, newServers(t, kind, n))
		})
	}
}

func newServers(t *testing.T, kind locktest.Kind, n int) *servers {
	s := &servers{kind: kind, name: redistest.Name(t)}
	for range n {
		server := redistest.Start(t)
		s.all = append(s.all, server)
		s.proxies = append(s.proxies, faultproxy.New(t, server.Addr()))
	}
	return s
}

// locks returns the members of one process's red lock: one lock for each server. Each lock has a new runtime, which connects through its server's
// proxy.
func (s *servers) locks(t *testing.T, options holdfast.Options) (locks []*holdfast.Lock) {
	for _, proxy := range s.proxies {
		rt := locktest.NewRuntime(t, locktest.NewClient(t, proxy.Addr()), options)
		t.Cleanup(proxy.Heal)
		locks = append(locks, s.kind.Lock(rt, s.name))
	}
	return locks
}

// held returns the indexes of the servers that have the lock's key.
func (s *servers) held(t *testing.T) (held []int) {
	for i, server := range s.all {
		n, err := server.Client(t).Exists(t.Context(), s.name).Result()
		require.NoError(t, err)
		if n > 0 {
			held = append(held, i)
		}
	}
	return held
}

// awaitHeld waits until exactly n servers have the key. This may take a while, because members that answer a red lock late are released in the
// background.
func (s *servers) awaitHeld(t *testing.T, n int) {
	t.Helper()
	locktest.Await(t, "nothing else to be left", func() bool { return len(s.held(t)) == n })
}

// acquireEverywhere acquires a red lock again and again, until the lease has every member. The ID of a lease shows how many members the lease has. A
// single acquire may not be enough: a lease needs only a majority, and on a busy machine a member that answers too late is released again.
func (s *servers) acquireEverywhere(t *testing.T, red *holdfast.MultiLock, options ...holdfast.AcquireOption) (lease *holdfast.Lease) {
	t.Helper()
	locktest.Await(t, "every member", func() bool {
		lease = acquireAll(t, red, options...)
		if strings.Count(lease.ID(), ",") == len(s.all)-1 {
			return true
		}
		require.NoError(t, lease.Release(t.Context()))
		return false
	})
	return lease
}

func TestRedLock_HoldsAMajority(t *testing.T) {
	t.Parallel()
	onServers(t, 3, func(t *testing.T, s *servers) {
		one, two := holdfast.Red(s.locks(t, holdfast.Options{})...), s.locks(t, holdfast.Options{})
		lease := acquireAll(t, one)
		assert.True(t, lease.Valid())
		assert.Equal(t, s.name, lease.Name())
		assert.Zero(t, lease.Token())
		_, err := holdfast.Red(two...).TryAcquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		var busy *holdfast.BusyError
		assert.ErrorAs(t, err, &busy)
		require.NoError(t, lease.Release(t.Context()))
		s.awaitHeld(t, 0)
		assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrNotHeld)

		for held := range two { // first one member is held elsewhere, then two
			var elsewhere []*holdfast.Lease
			for i := range held + 1 {
				elsewhere = append(elsewhere, locktest.Acquire(t, two[i]))
			}
			if held == 0 {
				// A late call of the refused attempt above may still hold another member for a moment. So this must be an Acquire: a TryAcquire could
				// be refused.
				lease := acquireAll(t, one)
				assert.True(t, lease.Valid())
				require.NoError(t, lease.Release(t.Context()))
			} else {
				_, err := one.TryAcquire(t.Context())
				assert.ErrorIs(t, err, holdfast.ErrNotAcquired, "a majority")
			}
			s.awaitHeld(t, len(elsewhere))
			for _, lease := range elsewhere {
				locktest.Release(t, lease)
			}
		}
	})
}

func TestRedLock_WaitsForAMajority(t *testing.T) {
	t.Parallel()
	onServers(t, 3, func(t *testing.T, s *servers) {
		red, other := holdfast.Red(s.locks(t, holdfast.Options{})...), s.locks(t, holdfast.Options{})
		elsewhere := []*holdfast.Lease{locktest.Acquire(t, other[0]), locktest.Acquire(t, other[2])}
		_, err := red.Acquire(t.Context(), holdfast.WithWait(100*time.Millisecond))
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = red.Acquire(ctx)
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorIs(t, err, context.DeadlineExceeded)

		acquired := make(chan *holdfast.Lease)
		go func() { acquired <- acquireAll(t, red) }()
		locktest.Release(t, elsewhere[1])
		lease := <-acquired
		assert.True(t, lease.Valid())
		require.NoError(t, lease.Release(t.Context()))
		locktest.Release(t, elsewhere[0])
		s.awaitHeld(t, 0)
	})
}

// If an acquire's context ends at the beginning of a round, its error still names a holder that an earlier round has found.
func TestRedLock_TellsWhatEarlierRoundsLearned(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "lock")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var tries atomic.Int32
	var refused atomic.Bool
	rt := p.Runtime(t, holdfast.Options{Trace: &holdfast.Trace{Acquiring: func(context.Context, holdfast.Acquiring) func(holdfast.Acquired) {
		if tries.Add(1)%3 == 1 && refused.Load() { // the first try of a round
			cancel()
		}
		return func(a holdfast.Acquired) {
			if _, busy := errors.AsType[*holdfast.BusyError](a.Err); busy {
				refused.Store(true)
			}
		}
	}}})
	other := p.Runtime(t, holdfast.Options{})
	var locks []*holdfast.Lock
	for range 3 {
		one := p.Another(t)
		locktest.Acquire(t, one.Lock(other))
		locks = append(locks, one.Lock(rt))
	}
	_, err := holdfast.Red(locks...).Acquire(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.ErrorIs(t, err, context.Canceled)
	var busy *holdfast.BusyError
	require.ErrorAs(t, err, &busy)
	assert.Contains(t, err.Error(), other.ID())
}

func TestRedLock_OneHolderAtATime(t *testing.T) {
	t.Parallel()
	onServers(t, 3, func(t *testing.T, s *servers) {
		var inside atomic.Int32
		var group sync.WaitGroup
		for range 3 {
			red := holdfast.Red(s.locks(t, holdfast.Options{})...)
			for range 2 {
				group.Go(func() {
					for range locktest.Scaled(100, 5) {
						assert.NoError(t, red.Do(t.Context(), func(ctx context.Context) error {
							assert.Equal(t, int32(1), inside.Add(1))
							inside.Add(-1)
							return ctx.Err()
						}))
					}
				})
			}
		}
		group.Wait()
		s.awaitHeld(t, 0)
	})
}

func TestRedLock_IsLostWithTheMajority(t *testing.T) {
	t.Parallel()
	onServers(t, 3, func(t *testing.T, s *servers) {
		red := holdfast.Red(s.locks(t, holdfast.Options{Lease: locktest.Unhurried(time.Second)})...)
		lease := s.acquireEverywhere(t, red)
		remove := func(i int) { require.NoError(t, s.all[i].Client(t).Del(t.Context(), s.name).Err()) }
		remove(0)
		locktest.Stays(t, "a majority is left", locktest.Unhurried(700*time.Millisecond), lease.Valid)
		assert.NoError(t, lease.Err())
		remove(1)
		locktest.Closed(t, "the lease's end", lease.Done())
		assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
		assert.False(t, lease.Valid())
		s.awaitHeld(t, 0)
		assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
	})
}

func TestRedLock_LeaseLastsAsLongAsAMajority(t *testing.T) {
	t.Parallel()
	onServers(t, 3, func(t *testing.T, s *servers) {
		var locks []*holdfast.Lock
		for i, lease := range []time.Duration{time.Minute, time.Hour, 10 * time.Hour} {
			rt := locktest.NewRuntime(t, locktest.NewClient(t, s.proxies[i].Addr()), holdfast.Options{Lease: lease})
			t.Cleanup(s.proxies[i].Heal)
			locks = append(locks, s.kind.Lock(rt, s.name))
		}
		red := holdfast.Red(locks...)
		lease := s.acquireEverywhere(t, red)
		assert.InDelta(t, time.Hour.Minutes(), time.Until(lease.ExpiresAt()).Minutes(), 5)
		require.NoError(t, lease.Release(t.Context()))

		lease = s.acquireEverywhere(t, red, holdfast.WithLease(time.Minute))
		s.proxies[0].Blackhole(true)
		began := time.Now()
		require.NoError(t, lease.Extend(t.Context(), time.Hour), "a majority is extended")
		assert.InDelta(t, time.Hour.Minutes(), time.Until(lease.ExpiresAt()).Minutes(), 5)
		require.NoError(t, lease.Release(t.Context()), "a majority confirms")
		assert.Less(t, time.Since(began), 5*time.Second, "a majority is enough: neither call waits for the silent member")
	})
}

func TestRedLock_TriesInBoundedTime(t *testing.T) {
	t.Parallel()
	for way, away := range map[string]func(*faultproxy.Proxy){
		"refused":    func(p *faultproxy.Proxy) { p.Refuse(true); p.Cut() },
		"blackholed": func(p *faultproxy.Proxy) { p.Blackhole(true) },
		"mute":       func(p *faultproxy.Proxy) { p.SwallowReplies(true) },
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			onServers(t, 5, func(t *testing.T, s *servers) {
				red := holdfast.Red(s.locks(t, holdfast.Options{})...)
				require.NoError(t, acquireAll(t, red).Release(t.Context()))
				for _, proxy := range s.proxies[:2] {
					away(proxy)
				}
				lease := acquireAll(t, red)
				assert.True(t, lease.Valid(), "two of five may be unreachable")
				require.NoError(t, lease.Release(t.Context()))

				away(s.proxies[2])
				took := locktest.Patience
				for range 3 {
					began := time.Now()
					_, err := red.TryAcquire(t.Context())
					took = min(took, time.Since(began))
					assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
					assert.NotErrorIs(t, err, context.DeadlineExceeded)
					assert.NotErrorIs(t, err, context.Canceled)
					t.Logf("three of five %s: %v", way, err)
				}
				t.Logf("three of five %s: an error after %v", way, took)
				assert.Less(t, took, 1500*time.Millisecond, "500 ms for the tries, 500 ms for the releases")
				for _, proxy := range s.proxies {
					proxy.Heal()
				}
				s.awaitHeld(t, 0)
			})
		})
	}
}

func TestRedLock_EndsWithItsRuntimes(t *testing.T) {
	t.Parallel()
	onServers(t, 3, func(t *testing.T, s *servers) {
		var runtimes []*holdfast.Runtime
		var locks []*holdfast.Lock
		for _, server := range s.all {
			rt := locktest.NewRuntime(t, locktest.NewClient(t, server.Addr()), holdfast.Options{})
			runtimes, locks = append(runtimes, rt), append(locks, s.kind.Lock(rt, s.name))
		}
		red := holdfast.Red(locks...)
		require.NoError(t, runtimes[0].Close(t.Context()))
		lease := acquireAll(t, red)
		assert.True(t, lease.Valid(), "two are left")
		require.NoError(t, runtimes[1].Close(t.Context()))
		locktest.Closed(t, "the lease's end", lease.Done())
		assert.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
		assert.NoError(t, lease.Release(t.Context()))
		_, err := red.Acquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrClosed, "no majority can be had any more")
		s.awaitHeld(t, 0)
	})
}
