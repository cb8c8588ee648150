package promises_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// soon limits how long another process waits for a lock that lingers. It is short, because the network in a synctest bubble takes no
// time.
const soon = 5 * time.Millisecond

const (
	lingerLease = 40 * time.Second
	lingerFor   = 10 * time.Second
)

// lingering runs a test for each kind whose locks may linger, with one runtime whose locks do and another whose locks do not.
func lingering(t *testing.T, test func(t *testing.T, server *holdfasttest.Server, kind locktest.Kind, one, other *holdfast.Runtime)) {
	t.Parallel()
	for _, kind := range locktest.Kinds {
		if kind.Deaf || kind.Queued {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := holdfasttest.New(t)
				other := server.Runtime()
				use(t, kind.Lock(other, "orders")) // the first grant of a fenced lock has only one token, so the lock would not linger
				<-time.After(time.Second)          // later grants have a token for each microsecond that has passed
				one := server.Runtime(holdfast.Options{Lease: lingerLease, Linger: lingerFor, OnEvent: func(e holdfast.Event) { t.Errorf("%v", e) }})
				synctest.Wait() // until the demand channel is subscribed to
				test(t, server, kind, one, other)
			})
		})
	}
}

// use takes a lock and releases it.
func use(t *testing.T, l *holdfast.Lock) *holdfast.Lease {
	t.Helper()
	lease := locktest.Acquire(t, l)
	require.NoError(t, lease.Release(t.Context()))
	return lease
}

// A process gets its lingering lock again without a call to Redis. The tokens of a fenced lock grow all the same. When Options.Linger has passed
// since the first release, the lock is freed, even if the process took it again and again in between. If the process holds the lock at that time,
// the next release frees it.
func TestLinger_NextLocalHolderAsksNobody(t *testing.T) {
	lingering(t, func(t *testing.T, server *holdfasttest.Server, kind locktest.Kind, one, _ *holdfast.Runtime) {
		there := func() bool { return server.Client().Exists(t.Context(), "orders").Val() == 1 }
		last := use(t, kind.Lock(one, "orders"))
		assert.True(t, there())
		assert.Equal(t, 1, one.Stats().Lingering)
		assert.Equal(t, 0, one.Stats().Held)
		before := one.Stats()
		for range 9 {
			<-time.After(lingerFor / 10)
			lease := use(t, kind.Lock(one, "orders"))
			assert.Equal(t, last.ID(), lease.ID())
			if kind.Fenced {
				assert.Greater(t, lease.Token(), last.Token())
			}
			last = lease
		}
		after := one.Stats()
		assert.Equal(t, uint64(9), after.HandedOn-before.HandedOn)
		assert.Equal(t, before.Scripts, after.Scripts)
		held := locktest.Acquire(t, kind.Lock(one, "orders"))
		<-time.After(lingerFor)
		synctest.Wait()
		assert.True(t, there(), "it has a holder")
		require.NoError(t, held.Release(t.Context()))
		assert.False(t, there(), "the lock does not linger longer than Options.Linger")
		assert.Equal(t, 0, one.Stats().Lingering)
		use(t, kind.Lock(one, "orders"))
		<-time.After(lingerFor - time.Millisecond)
		synctest.Wait()
		assert.True(t, there())
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		assert.False(t, there())
		assert.Equal(t, 0, one.Stats().Lingering)
	})
}

// If another process waits for a lingering lock, it gets the lock at once. If it only tries, the first try fails, but the second gets the lock. A
// process that began to wait before the release gets the lock when it is released.
func TestLinger_OtherProcessesHaveItAtOnce(t *testing.T) {
	lingering(t, func(t *testing.T, _ *holdfasttest.Server, kind locktest.Kind, one, other *holdfast.Runtime) {
		l, theirs := kind.Lock(one, "orders"), kind.Lock(other, "orders")
		use(t, l)
		began := time.Now()
		use(t, theirs)
		assert.Less(t, time.Since(began), soon)

		use(t, l)
		_, err := theirs.TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		<-time.After(soon)
		lease, err := theirs.TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))

		held := locktest.Acquire(t, l)
		waiting := theirs.AcquireAsync(t.Context())
		<-time.After(time.Second)
		require.NoError(t, held.Release(t.Context()))
		began = time.Now()
		lease, err = waiting.Lease()
		require.NoError(t, err)
		assert.Less(t, time.Since(began), 30*time.Millisecond, "the lock was wanted before its release, so it does not linger; it may stay free for 25 ms for clients that poll")
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A demand (the message of a process that wants a lingering lock) reaches the holder on real servers, clusters included. If a demand's
// message is lost, the next demand reaches the holder.
func TestLinger_DemandReachesTheHolder(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		if p.Kind.Deaf || p.Kind.Queued {
			return // locks of this kind never linger
		}
		stalls := locktest.WatchStalls(t, p)
		one, other := p.Runtime(t, holdfast.Options{Lease: lingerLease, Linger: lingerFor}), p.Runtime(t, holdfast.Options{})
		use(t, p.Lock(other)) // the first grant of a fenced lock has only one token, so the lock would not linger

		// When the runtime has subscribed to demands, it treats the locks that it already holds as wanted by others. So this lock may not linger at
		// first.
		locktest.Await(t, "the lock to linger", func() bool {
			use(t, p.Lock(one))
			return one.Stats().Lingering == 1
		})
		began := time.Now()
		use(t, p.Lock(other))
		assert.Less(t, time.Since(began), 2*time.Second+5*stalls.Take(), "the waiter asks once a second")
		assert.Zero(t, one.Stats().Lingering)
	})
}

// A lingering lock is also given up for another kind of lock with the same key, in another process or in the same one.
func TestLinger_OtherKindsHaveItAtOnce(t *testing.T) {
	lingering(t, func(t *testing.T, _ *holdfasttest.Server, kind locktest.Kind, one, other *holdfast.Runtime) {
		for _, wants := range locktest.Kinds {
			if wants.Mode != kind.Mode {
				continue
			}
			for _, rt := range []*holdfast.Runtime{one, other} {
				use(t, kind.Lock(one, wants.Name))
				began := time.Now()
				use(t, wants.Lock(rt, wants.Name))
				limit := soon
				if wants.Deaf {
					limit = 150 * time.Millisecond // its waiters poll
				}
				assert.Less(t, time.Since(began), limit, wants.Name)
			}
		}
	})
}

// A lingering lock refuses one try of another kind of lock with the same key, even in the same process.
func TestLinger_OtherKindsAreRefusedOnce(t *testing.T) {
	lingering(t, func(t *testing.T, _ *holdfasttest.Server, kind locktest.Kind, one, _ *holdfast.Runtime) {
		for _, wants := range locktest.Kinds {
			if wants.Mode != kind.Mode || wants.Name == kind.Name {
				continue
			}
			use(t, kind.Lock(one, wants.Name))
			_, err := wants.Lock(one, wants.Name).TryAcquire(t.Context())
			require.ErrorIs(t, err, holdfast.ErrNotAcquired, wants.Name)
			synctest.Wait() // the lock is given up
			lease, err := wants.Lock(one, wants.Name).TryAcquire(t.Context())
			require.NoError(t, err, wants.Name)
			require.NoError(t, lease.Release(t.Context()))
		}
	})
}

// If a write lock lingers, readers get the lock at once. In the same process even a try gets it.
func TestLinger_ReadersHaveItAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		one, other := server.Runtime(holdfast.Options{Linger: time.Second}), server.Runtime()
		synctest.Wait()
		for _, rt := range []*holdfast.Runtime{one, other} {
			use(t, one.RWLock("orders").Write())
			began := time.Now()
			use(t, rt.RWLock("orders").Read())
			assert.Less(t, time.Since(began), soon)
		}
		use(t, one.RWLock("orders").Write())
		lease, err := one.RWLock("orders").Read().TryAcquire(t.Context())
		require.NoError(t, err)
		_, err = one.RWLock("orders").Write().TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A client that sends no demand finds a lingering lock free within Options.Linger, even if the lingering lock's process takes it again and again.
func TestLinger_SilentClientsHaveItInTime(t *testing.T) {
	lingering(t, func(t *testing.T, server *holdfasttest.Server, kind locktest.Kind, one, _ *holdfast.Runtime) {
		use(t, kind.Lock(one, "orders"))
		began := time.Now()
		got := make(chan struct{})
		go func() {
			defer close(got)
			for server.Client().Exists(t.Context(), "orders").Val() == 1 {
				<-time.After(time.Millisecond)
			}
			assert.Less(t, time.Since(began), lingerFor+20*time.Millisecond)
		}()
		for {
			select {
			case <-got:
				return
			default:
				lease := locktest.Acquire(t, kind.Lock(one, "orders"))
				<-time.After(10 * time.Millisecond)
				require.NoError(t, lease.Release(t.Context()))
			}
		}
	})
}

// Whatever ends a held lock ends a lingering one, too.
func TestLinger_EndsWithTheLock(t *testing.T) {
	for what, end := range map[string]func(t *testing.T, server *holdfasttest.Server, l *holdfast.Lock, one, other *holdfast.Runtime, kind locktest.Kind){
		"close": func(t *testing.T, _ *holdfasttest.Server, _ *holdfast.Lock, one, _ *holdfast.Runtime, _ locktest.Kind) {
			require.NoError(t, one.Close(t.Context()))
		},
		"shutdown": func(t *testing.T, _ *holdfasttest.Server, _ *holdfast.Lock, one, _ *holdfast.Runtime, _ locktest.Kind) {
			require.NoError(t, one.Shutdown(t.Context()))
		},
		"forced here": func(t *testing.T, _ *holdfasttest.Server, l *holdfast.Lock, _, _ *holdfast.Runtime, _ locktest.Kind) {
			freed, err := l.ForceRelease(t.Context())
			require.NoError(t, err)
			assert.True(t, freed)
		},
		"forced elsewhere": func(t *testing.T, _ *holdfasttest.Server, _ *holdfast.Lock, _, other *holdfast.Runtime, kind locktest.Kind) {
			freed, err := kind.Lock(other, "orders").ForceRelease(t.Context())
			require.NoError(t, err)
			assert.True(t, freed)
		},
		"lost": func(t *testing.T, server *holdfasttest.Server, _ *holdfast.Lock, _, _ *holdfast.Runtime, _ locktest.Kind) {
			server.Lose("orders")
			<-time.After(lingerFor)
		},
		"lost before another lease is wanted": func(t *testing.T, server *holdfasttest.Server, l *holdfast.Lock, _, _ *holdfast.Runtime, _ locktest.Kind) {
			server.Lose("orders")
			lease, err := l.Acquire(t.Context(), holdfast.WithLease(time.Second))
			require.NoError(t, err)
			require.NoError(t, lease.Release(t.Context()))
		},
	} {
		t.Run(what, func(t *testing.T) {
			lingering(t, func(t *testing.T, server *holdfasttest.Server, kind locktest.Kind, one, other *holdfast.Runtime) {
				last := use(t, kind.Lock(one, "orders"))
				began := time.Now()
				end(t, server, kind.Lock(one, "orders"), one, other, kind)
				synctest.Wait()
				assert.LessOrEqual(t, time.Since(began), lingerFor)
				assert.Zero(t, server.Client().Exists(t.Context(), "orders").Val())
				assert.Zero(t, one.Stats().Lingering)
				assert.Zero(t, one.Stats().Lost)
				lease := use(t, kind.Lock(other, "orders"))
				assert.NotEqual(t, last.ID(), lease.ID())
			})
		})
	}
}

// A lock lingers only if its last holder had the usual lease. A lock with an at-least time stays taken until the at-least time is over, and no
// longer.
func TestLinger_OnlyUsualLeases(t *testing.T) {
	lingering(t, func(t *testing.T, server *holdfasttest.Server, kind locktest.Kind, one, _ *holdfast.Runtime) {
		for what, option := range map[string]holdfast.AcquireOption{
			"fixed": holdfast.WithLease(time.Minute), "renewed": holdfast.WithRenewedLease(time.Minute), "at most": holdfast.WithAtMost(time.Minute),
		} {
			lease := locktest.Acquire(t, kind.Lock(one, "orders"), option)
			require.NoError(t, lease.Release(t.Context()))
			assert.Zero(t, server.Client().Exists(t.Context(), "orders").Val(), what)
		}
		least := locktest.Acquire(t, kind.Lock(one, "orders"), holdfast.WithAtLeast(time.Second))
		require.NoError(t, least.Release(t.Context()))
		assert.LessOrEqual(t, server.Client().PTTL(t.Context(), "orders").Val(), time.Second)
	})
}

// While Redis is unreachable, a lingering lock is handed on only before the deadline of its lease.
func TestLinger_EndsBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		rt := server.Runtime(holdfast.Options{Lease: time.Second, Linger: time.Second / 4})
		use(t, rt.Lock("orders"))
		began := time.Now()
		server.Cut(rt)
		deadline := began.Add(time.Second)
		for {
			lease, err := rt.Lock("orders").TryAcquire(t.Context())
			if err != nil {
				break
			}
			assert.True(t, lease.Valid())
			require.True(t, time.Now().Before(deadline))
			<-time.After(20 * time.Millisecond)
			_ = lease.Release(t.Context()) // Redis is unreachable, so the release is not confirmed
		}
		server.Heal(rt)
		use(t, rt.Lock("orders"))
	})
}

// Locks of other kinds do not linger.
func TestLinger_NotForOtherKinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		rt := server.Runtime(holdfast.Options{Linger: time.Second})
		locks := []*holdfast.Lock{rt.FairLock("orders"), rt.SpinLock("orders"), rt.RWLock("orders").Read()}
		for _, l := range slices.Concat(locks, locks) {
			use(t, l)
			assert.Zero(t, server.Client().Exists(t.Context(), "orders").Val())
			assert.Zero(t, rt.Stats().Lingering)
		}
	})
}
