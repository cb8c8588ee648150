package kinds_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// internal/promises tests the write half. This file and rwlock_lease_test.go test the rest: the read half, and how the halves affect each other.

// onReadWrite runs a test of a read/write lock on every server.
func onReadWrite(t *testing.T, show func(t *testing.T, p *locktest.Place)) {
	t.Parallel()
	locktest.OnServersOf(t, "write lock", show)
}

func refused(t *testing.T, lock *holdfast.Lock, options ...holdfast.AcquireOption) {
	t.Helper()
	_, err := lock.TryAcquire(t.Context(), options...)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
}

func TestRWLock_ReadersHoldBesideEachOther(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		one, two := locktest.Acquire(t, rt.RWLock(p.Name).Read()), locktest.Acquire(t, rt.RWLock(p.Name).Read())
		fixed := locktest.Acquire(t, rt.RWLock(p.Name).Read(), holdfast.WithLease(time.Minute))
		there, err := other.RWLock(p.Name).Read().TryAcquire(t.Context())
		require.NoError(t, err)
		assert.Equal(t, one.ID(), two.ID(), "those that the watchdog renews share a field")
		assert.Equal(t, map[string]string{one.ID(): "1", fixed.ID(): "1", there.ID(): "1"}, p.Fields(t))
		assert.Len(t, p.TimeoutKeys(t), 3)
		for _, lease := range []*holdfast.Lease{one, two, fixed, there} {
			assert.True(t, lease.Valid())
		}

		locktest.Release(t, one)
		assert.Contains(t, p.Fields(t), two.ID(), "the other still holds it")
		locktest.Release(t, fixed)
		locktest.Release(t, two)
		assert.Equal(t, map[string]string{there.ID(): "1"}, p.Fields(t))
		locktest.Release(t, there)
		assert.False(t, p.Exists(t))
		assert.Empty(t, p.TimeoutKeys(t))
	})
}

func TestRWLock_TriesOfReadersSucceedTogether(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		read := p.Runtime(t, holdfast.Options{}).RWLock(p.Name).Read()
		const readers = 10
		leases, errs := make(chan *holdfast.Lease, readers), make(chan error, readers)
		for i := range readers {
			go func() {
				acquire := read.TryAcquire
				if i == 0 {
					acquire = read.Acquire
				}
				lease, err := acquire(t.Context())
				leases <- lease
				errs <- err
			}()
		}
		for range readers {
			require.NoError(t, <-errs, "no writer wants the lock")
		}
		for range readers {
			locktest.Release(t, <-leases)
		}
		assert.False(t, p.Exists(t))
	})
}

func TestRWLock_WriterIsAlone(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		writer := locktest.Acquire(t, rt.RWLock(p.Name).Write())
		for _, rt := range []*holdfast.Runtime{rt, other} {
			refused(t, rt.RWLock(p.Name).Write())
			refused(t, rt.RWLock(p.Name).Read())
			refused(t, rt.RWLock(p.Name).Read(), holdfast.WithLease(time.Minute))
			refused(t, rt.RWLock(p.Name).Read(), holdfast.WithOwner(rt.NewOwner()))
		}
		locktest.Release(t, writer)

		reader := locktest.Acquire(t, rt.RWLock(p.Name).Read())
		for _, rt := range []*holdfast.Runtime{rt, other} {
			refused(t, rt.RWLock(p.Name).Write())
			refused(t, rt.RWLock(p.Name).Write(), holdfast.WithOwner(rt.NewOwner()))
		}
		locktest.Release(t, reader)
		locktest.Release(t, locktest.Acquire(t, other.RWLock(p.Name).Write()))
		assert.False(t, p.Exists(t))
	})
}

// Three processes read and write at random: a writer is alone, readers hold the lock together, and nothing is left in Redis.
func TestRWLock_ManyReadersOrOneWriter(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		var readers, writers, met, done atomic.Int64
		enter := func(mine *atomic.Int64, alone bool) {
			n := mine.Add(1)
			if alone {
				assert.Equal(t, int64(1), n, "two writers")
				assert.Zero(t, readers.Load(), "a reader beside a writer")
			} else {
				assert.Zero(t, writers.Load(), "a writer beside a reader")
				met.Add(min(n-1, 1))
			}
			p.Redis.Ping(t.Context()) // takes a while
			mine.Add(-1)
			done.Add(1)
		}
		var all sync.WaitGroup
		rounds := locktest.Scaled(150, 20)
		for range 3 {
			lock := p.Runtime(t, holdfast.Options{}).RWLock(p.Name)
			for i := range 6 {
				all.Go(func() {
					for round := range rounds {
						half, mine := lock.Read(), &readers
						if (round+i)%4 == 0 {
							half, mine = lock.Write(), &writers
						}
						var options []holdfast.AcquireOption
						if round%5 == 0 {
							options = append(options, holdfast.WithLease(time.Minute))
						}
						assert.NoError(t, half.Do(t.Context(), func(context.Context) error {
							enter(mine, mine == &writers)
							return nil
						}, options...))
					}
				})
			}
		}
		all.Wait()
		assert.Equal(t, int64(18*rounds), done.Load())
		assert.Positive(t, met.Load(), "readers hold beside each other")
		assert.False(t, p.Exists(t))
		assert.Empty(t, p.TimeoutKeys(t))
	})
}

// An owner that holds the write lock may acquire the read lock too, and keep it after releasing the write lock. Then other readers get the lock
// at once, and writers stay out.
func TestRWLock_Downgrade(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		stalls := locktest.WatchStalls(t, p)
		mine, theirs, owner := rt.RWLock(p.Name), other.RWLock(p.Name), rt.NewOwner()
		writer := locktest.Acquire(t, mine.Write(), holdfast.WithOwner(owner))
		reader := locktest.Acquire(t, mine.Read(), holdfast.WithOwner(owner))
		assert.Equal(t, reader.ID()+":write", writer.ID(), "it keeps its number, as a Redisson thread does")
		assert.Equal(t, map[string]string{writer.ID(): "1", reader.ID(): "1"}, p.Fields(t))
		waiting := []*holdfast.Pending{theirs.Read().AcquireAsync(t.Context()), theirs.Read().AcquireAsync(t.Context(), holdfast.WithLease(time.Minute))}
		p.WaitForWaiting(t, other, 2)
		p.WaitForListener(t)
		refused(t, theirs.Read())

		stalls.Take()
		start := time.Now()
		locktest.Release(t, writer)
		first, second := locktest.Granted(t, waiting[0]), locktest.Granted(t, waiting[1])
		assert.Less(t, time.Since(start), 500*time.Millisecond+stalls.Slack(), "woken; Redisson's would sleep until the lease ends")
		assert.True(t, reader.Valid())
		refused(t, theirs.Write())
		refused(t, mine.Write())
		locktest.Release(t, locktest.Acquire(t, mine.Read()))

		for _, lease := range []*holdfast.Lease{first, reader, second} {
			locktest.Release(t, lease)
		}
		assert.False(t, p.Exists(t))
		assert.Empty(t, p.TimeoutKeys(t))
	})
}

// A writer may acquire the read lock as well. When the writer has released the read lock, it still holds the write lock, which is renewed.
func TestRWLock_ReadInsideWrite(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		lease := locktest.Unhurried(900 * time.Millisecond)
		rt, other := p.Runtime(t, holdfast.Options{Lease: lease}), p.Runtime(t, holdfast.Options{})
		lock, owner := rt.RWLock(p.Name), rt.NewOwner()
		writer := locktest.Acquire(t, lock.Write(), holdfast.WithOwner(owner))
		for _, options := range [][]holdfast.AcquireOption{nil, {holdfast.WithLease(time.Minute)}} {
			locktest.Release(t, locktest.Acquire(t, lock.Read(), append(options, holdfast.WithOwner(owner))...))
			assert.Equal(t, map[string]string{writer.ID(): "1"}, p.Fields(t))
		}
		locktest.Stays(t, "it is renewed", 3*lease/2, func() bool { return writer.Valid() && p.Exists(t) })
		refused(t, other.RWLock(p.Name).Read())
		locktest.Release(t, writer)
		assert.False(t, p.Exists(t))
	})
}

func TestRWLock_UpgradeIsRefusedAtOnce(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		lock, owner := rt.RWLock(p.Name), rt.NewOwner()
		mine := holdfast.WithOwner(owner)
		asked := func(when string) {
			_, acquireErr := lock.Write().Acquire(t.Context(), mine)
			_, tryErr := lock.Write().TryAcquire(t.Context(), mine)
			_, asyncErr := lock.Write().AcquireAsync(t.Context(), mine, holdfast.WithLease(time.Minute)).Lease()
			for _, err := range []error{acquireErr, tryErr, asyncErr} {
				assert.ErrorIs(t, err, holdfast.ErrUpgrade, when)
				assert.ErrorContains(t, err, p.Name)
				assert.NotErrorIs(t, err, holdfast.ErrNotAcquired)
			}
		}
		for _, options := range [][]holdfast.AcquireOption{{mine}, {mine, holdfast.WithLease(time.Minute)}} {
			reader := locktest.Acquire(t, lock.Read(), options...)
			asked("reading")
			refused(t, lock.Write(), holdfast.WithOwner(rt.NewOwner())) // another owner could wait, so this is not ErrUpgrade
			locktest.Release(t, reader)
		}
		writer, reader := locktest.Acquire(t, lock.Write(), mine), locktest.Acquire(t, lock.Read(), mine)
		locktest.Release(t, locktest.Acquire(t, lock.Write(), mine)) // a writer that also reads may re-enter
		locktest.Release(t, writer)
		asked("downgraded")
		locktest.Release(t, reader)
		locktest.Release(t, locktest.Acquire(t, lock.Write(), mine))
		assert.False(t, p.Exists(t))
	})
}

// For both halves of the lock, Do passes its owner in the context to nested calls of Do.
func TestRWLock_NestedDo(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		lock, depth := p.Runtime(t, holdfast.Options{}).RWLock(p.Name), 0
		inside := func(context.Context) error { depth++; return nil }
		require.NoError(t, lock.Write().Do(t.Context(), func(ctx context.Context) error {
			assert.NoError(t, lock.Write().Do(ctx, inside))
			return lock.Read().Do(ctx, func(ctx context.Context) error {
				return lock.Read().Do(ctx, inside)
			})
		}))
		require.NoError(t, lock.Read().Do(t.Context(), func(ctx context.Context) error {
			assert.ErrorIs(t, lock.Write().Do(ctx, inside), holdfast.ErrUpgrade)
			return lock.Read().Do(ctx, inside)
		}))
		assert.Equal(t, 3, depth)
		assert.False(t, p.Exists(t))
		assert.Empty(t, p.TimeoutKeys(t))
	})
}

// An owner re-enters its read lock even when a waiting writer is ahead of all other readers.
func TestRWLock_ReaderReentersPastAWaitingWriter(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		lock := rt.RWLock(p.Name)
		for _, fixed := range [][]holdfast.AcquireOption{nil, {holdfast.WithLease(time.Minute)}} {
			mine := append(fixed, holdfast.WithOwner(rt.NewOwner()))
			reader := locktest.Acquire(t, lock.Read(), mine...)
			writer := lock.Write().AcquireAsync(t.Context())
			p.WaitForWaiting(t, rt, 1)
			refused(t, lock.Read())
			again, err := lock.Read().TryAcquire(t.Context(), mine...)
			require.NoError(t, err)
			locktest.Release(t, reader)
			locktest.Open(t, "the writer's grant", writer.Done())
			locktest.Release(t, again)
			locktest.Release(t, locktest.Granted(t, writer))
		}
		assert.False(t, p.Exists(t))
	})
}

func TestRWLock_ForceReleaseHitsItsHalf(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		lock, theirs := rt.RWLock(p.Name), other.RWLock(p.Name)
		force := func(half *holdfast.Lock) bool {
			held, err := half.ForceRelease(t.Context())
			require.NoError(t, err)
			return held
		}
		assert.False(t, force(lock.Read()) || force(lock.Write()), "it is free")

		readers := []*holdfast.Lease{
			locktest.Acquire(t, lock.Read()), locktest.Acquire(t, lock.Read()), locktest.Acquire(t, lock.Read(), holdfast.WithLease(time.Minute)),
		}
		waiting := theirs.Write().AcquireAsync(t.Context())
		p.WaitForWaiter(t, other)
		assert.False(t, force(theirs.Write()))
		assert.True(t, readers[0].Valid())
		assert.True(t, force(lock.Read()))
		for _, lease := range readers {
			assert.False(t, lease.Valid(), "holders in this runtime are notified at once")
			assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
		}

		writer := locktest.Granted(t, waiting)
		blocked := lock.Read().AcquireAsync(t.Context())
		p.WaitForWaiter(t, rt)
		assert.False(t, force(lock.Read()))
		assert.True(t, writer.Valid())
		assert.True(t, force(theirs.Write()))
		assert.ErrorIs(t, writer.Release(t.Context()), holdfast.ErrLeaseLost)
		locktest.Release(t, locktest.Granted(t, blocked))
		assert.False(t, p.Exists(t))
	})
}

func TestRWLock_InspectTellsOfBothHalves(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		lock := rt.RWLock(p.Name)
		inspect := func(half *holdfast.Lock) holdfast.State {
			state, err := half.Inspect(t.Context())
			require.NoError(t, err)
			if state.Held {
				assert.InDelta(t, 30, state.TTL.Seconds(), 10)
			}
			state.TTL = 0
			return state
		}
		both := func(rt *holdfast.Runtime) holdfast.State {
			read, write := inspect(rt.RWLock(p.Name).Read()), inspect(rt.RWLock(p.Name).Write())
			assert.Equal(t, read, write)
			return read
		}
		assert.Equal(t, holdfast.State{}, both(rt))

		owner := rt.NewOwner()
		one := locktest.Acquire(t, lock.Read(), holdfast.WithOwner(owner))
		two := locktest.Acquire(t, other.RWLock(p.Name).Read())
		writer := lock.Write().AcquireAsync(t.Context())
		p.WaitForWaiting(t, rt, 1)
		state := both(rt)
		assert.Equal(t, "read", state.Mode)
		assert.ElementsMatch(t, []holdfast.Holder{{ID: one.ID(), Holds: 1}, {ID: two.ID(), Holds: 1}}, state.Holders)
		assert.Equal(t, []string{owner.String()}, state.Local)
		assert.Equal(t, 1, state.Waiting)
		locktest.Release(t, one)
		locktest.Release(t, two)

		lease := locktest.Granted(t, writer)
		held := holdfast.State{Held: true, Mode: "write", Holders: []holdfast.Holder{{ID: lease.ID(), Holds: 1}}}
		assert.Equal(t, held, both(other))
		held.Local = []string{lease.ID()}
		assert.Equal(t, held, both(rt))
		locktest.Release(t, lease)
		assert.Equal(t, holdfast.State{}, both(other))
	})
}

// This test covers the read half. The test of ErrForeignKey in errors_test.go, at the root, covers the write half.
func TestRWLock_ForeignKeysOfTheReadHalf(t *testing.T) {
	for what, set := range map[string]func(p *locktest.Place, ctx context.Context) error{
		"string": func(p *locktest.Place, ctx context.Context) error { return p.Redis.Set(ctx, p.Name, "x", 0).Err() },
		"lock": func(p *locktest.Place, ctx context.Context) error {
			return p.Redis.HSet(ctx, p.Name, locktest.Stranger(1), 1).Err()
		},
		"hash": func(p *locktest.Place, ctx context.Context) error {
			return p.Redis.HSet(ctx, p.Name, "mode", "dark").Err()
		},
	} {
		t.Run(what, func(t *testing.T) {
			onReadWrite(t, func(t *testing.T, p *locktest.Place) {
				require.NoError(t, set(p, t.Context()))
				before := p.Redis.Dump(t.Context(), p.Name).Val()
				half := p.Runtime(t, holdfast.Options{}).RWLock(p.Name).Read()
				_, tryErr := half.TryAcquire(t.Context())
				_, acquireErr := half.Acquire(t.Context(), holdfast.WithLease(time.Minute))
				_, forceErr := half.ForceRelease(t.Context())
				for _, err := range []error{tryErr, acquireErr, forceErr} {
					assert.ErrorIs(t, err, holdfast.ErrForeignKey)
					assert.ErrorContains(t, err, p.Name)
				}
				assert.Equal(t, before, p.Redis.Dump(t.Context(), p.Name).Val(), "it is left alone")
			})
		})
	}
}

// All keys of a lock have the same hash tag, even if its name contains colons or braces.
func TestRWLock_NamesWithColonsAndBraces(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		for _, name := range []string{"{" + p.Name + "}:abc:key", p.Name + ":write", p.Name + ":rwlock_timeout:1"} {
			lock, prefix := rt.RWLock(name), name
			if !strings.Contains(name, "{") {
				prefix = "{" + name + "}"
			}
			one, fixed := locktest.Acquire(t, lock.Read()), locktest.Acquire(t, lock.Read(), holdfast.WithLease(time.Minute))
			for _, lease := range []*holdfast.Lease{one, fixed} {
				key := fmt.Sprintf("%s:%s:rwlock_timeout:1", prefix, lease.ID())
				assert.Equal(t, int64(1), p.Redis.Exists(t.Context(), key).Val(), key)
			}
			locktest.Release(t, fixed)
			assert.InDelta(t, 30, p.Redis.PTTL(t.Context(), name).Val().Seconds(), 5, "the TTL is that of the other reader")
			locktest.Release(t, one)
			assert.Zero(t, p.Redis.Exists(t.Context(), name).Val())
		}
	})
}
