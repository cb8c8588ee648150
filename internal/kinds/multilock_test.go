package kinds_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
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

// team is the members of a multi lock: locks of different names, which belong to the given runtimes in rotation.
type team struct {
	places   []*locktest.Place
	runtimes []*holdfast.Runtime
	locks    []*holdfast.Lock
}

func newTeam(p *locktest.Place, n int, runtimes ...*holdfast.Runtime) *team {
	m := &team{}
	for i := range n {
		q := p.Named(p.Name + "-" + strconv.Itoa(i))
		rt := runtimes[i%len(runtimes)]
		m.places, m.runtimes, m.locks = append(m.places, q), append(m.runtimes, rt), append(m.locks, q.Lock(rt))
	}
	return m
}

// of returns another runtime's locks with the same names as the team's locks.
func (m *team) of(rt *holdfast.Runtime) []*holdfast.Lock {
	var locks []*holdfast.Lock
	for _, place := range m.places {
		locks = append(locks, place.Lock(rt))
	}
	return locks
}

// held returns the indexes of the places whose keys exist.
func (m *team) held(t *testing.T) (held []int) {
	for i, place := range m.places {
		if place.Exists(t) {
			held = append(held, i)
		}
	}
	return held
}

func acquireAll(t *testing.T, lock *holdfast.MultiLock, options ...holdfast.AcquireOption) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	lease, err := lock.Acquire(ctx, options...)
	require.NoError(t, err)
	return lease
}

func TestMultiLock_HoldsAllMembers(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		m := newTeam(p, 3, p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{}))
		other := p.Runtime(t, holdfast.Options{})
		multi := holdfast.Multi(m.locks[2], m.locks[0], m.locks[1])
		for _, acquire := range []func() (*holdfast.Lease, error){
			func() (*holdfast.Lease, error) { return multi.TryAcquire(t.Context()) },
			func() (*holdfast.Lease, error) { return multi.Acquire(t.Context()) },
		} {
			lease, err := acquire()
			require.NoError(t, err)
			var ids []string
			for i, place := range m.places {
				locktest.AssertTaken(t, place, m.runtimes[i], other)
				for id := range place.Fields(t) {
					ids = append(ids, id)
				}
			}
			assert.True(t, lease.Valid())
			assert.NoError(t, lease.Err())
			assert.Zero(t, lease.Token())
			assert.ElementsMatch(t, ids, strings.Split(lease.ID(), ","))
			assert.Equal(t, []string{m.places[2].Name, m.places[0].Name, m.places[1].Name}, strings.Split(lease.Name(), ","))

			require.NoError(t, lease.Release(t.Context()))
			assert.Empty(t, m.held(t), "all are free when Release returns")
			locktest.Closed(t, "the lease's end", lease.Done())
			assert.ErrorIs(t, lease.Err(), holdfast.ErrNotHeld)
			assert.False(t, lease.Valid())
			assert.Zero(t, lease.ExpiresAt())
			assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrNotHeld)
			assert.ErrorIs(t, lease.Extend(t.Context(), time.Minute), holdfast.ErrNotHeld)
		}
	})
}

func TestMultiLock_TryAcquireTakesAllOrNothing(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		m := newTeam(p, 3, p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{}))
		other := m.of(p.Runtime(t, holdfast.Options{}))
		for i := range m.locks {
			lease := locktest.Acquire(t, other[i])
			_, err := holdfast.Multi(m.locks...).TryAcquire(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
			var busy *holdfast.BusyError
			if assert.ErrorAs(t, err, &busy) {
				assert.Equal(t, m.places[i].Name, busy.Name)
				assert.Equal(t, lease.ID(), busy.Holder)
				assert.False(t, busy.Local)
			}
			assert.Equal(t, []int{i}, m.held(t), "nothing is left of the others when it returns")
			locktest.Release(t, lease)

			lease = locktest.Acquire(t, m.locks[i])
			for _, acquire := range []func(wait time.Duration) (*holdfast.Lease, error){
				func(time.Duration) (*holdfast.Lease, error) {
					return holdfast.Multi(m.locks...).TryAcquire(t.Context())
				},
				func(wait time.Duration) (*holdfast.Lease, error) {
					return holdfast.Multi(m.locks...).Acquire(t.Context(), holdfast.WithWait(wait))
				},
			} {
				busy = nil
				for wait := 50 * time.Millisecond; wait < locktest.Patience && busy == nil; wait *= 4 { // a short wait may end before Redis answers
					_, err := acquire(wait)
					require.ErrorIs(t, err, holdfast.ErrNotAcquired)
					errors.As(err, &busy)
				}
				require.NotNil(t, busy)
				assert.Equal(t, lease.ID(), busy.Holder)
				assert.True(t, busy.Local)
			}
			locktest.Release(t, lease)
		}
	})
}

// A multi lock acquires its members in the order of their names. Members with the same name are acquired in the order of Multi's arguments.
func TestMultiLock_TakesMembersInOrder(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		elsewhere := p.Another(t) // for a second lock of the same name, under another key
		mapped := p.Runtime(t, holdfast.Options{NameMapper: func(name string) string { return elsewhere.Name + name }})
		m := newTeam(p, 2, p.Runtime(t, holdfast.Options{}))
		locks := []*holdfast.Lock{m.locks[1], m.locks[0], p.Kind.Lock(mapped, m.places[0].Name)}
		order := []*holdfast.Lock{locks[1], locks[2], locks[0]}
		var held []*holdfast.Lease
		for _, lock := range order {
			held = append(held, locktest.Acquire(t, lock))
		}
		for i, lock := range order {
			_, err := holdfast.Multi(locks...).TryAcquire(t.Context())
			var busy *holdfast.BusyError
			require.ErrorAs(t, err, &busy)
			assert.Equal(t, lock.Name(), busy.Name)
			assert.Equal(t, held[i].ID(), busy.Holder, "it fails at the first")
			locktest.Release(t, held[i])
		}
	})
}

// While a multi lock waits for one of its members, it may hold the other members. It releases the others after a limited time, and holds none of them
// for the rest of the wait. This is tested for each member.
func TestMultiLock_WaitsWithBoundsWhileItHolds(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		m := newTeam(p, 3, rt)
		others := m.of(other)
		for i := range m.locks {
			inTheWay := locktest.Acquire(t, others[i])
			acquired := make(chan struct{})
			var lease *holdfast.Lease
			go func() {
				defer close(acquired)
				var err error
				lease, err = holdfast.Multi(m.locks...).Acquire(t.Context())
				assert.NoError(t, err)
			}()
			m.places[i].WaitForWaiting(t, rt, 1)
			for k := range others {
				if k != i {
					locktest.Release(t, locktest.Acquire(t, others[k]))
				}
			}
			locktest.Open(t, "all members", acquired)
			locktest.Await(t, "the others to be free", func() bool { return len(m.held(t)) == 1 })
			locktest.Stays(t, "it holds none of the others while it waits for the one", 300*time.Millisecond, func() bool { return len(m.held(t)) == 1 })
			locktest.Release(t, inTheWay)
			locktest.Closed(t, "all members", acquired)
			locktest.Release(t, lease)
			assert.Empty(t, m.held(t))
		}
	})
}

// Callers that already hold one member and want another can form a cycle, which no order of the members prevents. A multi lock breaks such a cycle by
// releasing its members.
func TestMultiLock_LeavesACircle(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		m := newTeam(p, 2, p.Runtime(t, holdfast.Options{}))
		others := m.of(p.Runtime(t, holdfast.Options{}))
		held := locktest.Acquire(t, others[1])
		ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
		defer cancel()
		acquired := make(chan *holdfast.Lease)
		go func() {
			lease, err := holdfast.Multi(m.locks...).Acquire(ctx)
			assert.NoError(t, err)
			acquired <- lease
		}()
		locktest.Await(t, "the multi lock to take the first", func() bool { return m.places[0].Exists(t) })

		second, err := others[0].Acquire(ctx)
		require.NoError(t, err, "the multi lock releases it")
		locktest.Release(t, second)
		locktest.Release(t, held)
		require.NoError(t, (<-acquired).Release(t.Context()))
	})
}

func TestMultiLock_EndsWaitingInTime(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		m := newTeam(p, 3, p.Runtime(t, holdfast.Options{}))
		multi := holdfast.Multi(m.locks...)
		held := locktest.Acquire(t, m.of(p.Runtime(t, holdfast.Options{}))[2])

		var err error
		var busy *holdfast.BusyError
		// A wait that is too short for an answer from Redis ends without a BusyError.
		for wait := 300 * time.Millisecond; busy == nil && wait < locktest.Patience; wait *= 2 {
			_, err = multi.Acquire(t.Context(), holdfast.WithWait(wait))
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			_ = errors.As(err, &busy)
		}
		assert.NotNil(t, busy, "%v", err)
		locktest.Await(t, "nothing to be left", func() bool { return slices.Equal(m.held(t), []int{2}) })

		for _, after := range []time.Duration{0, time.Millisecond, 300 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_, err = multi.Acquire(ctx)
			cancel()
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			locktest.Await(t, "nothing to be left", func() bool { return len(m.held(t)) == 1 })
		}
		locktest.Release(t, held)
	})
}

// After a cancel at any instant, all members are held, or none.
func TestMultiLock_CancelledAtAnyInstant(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		m := newTeam(p, 4, p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{}))
		multi := holdfast.Multi(m.locks...)
		took, cancelled := locktest.Patience, 0
		for range 5 {
			began := time.Now()
			lease := acquireAll(t, multi)
			took = min(took, time.Since(began))
			require.NoError(t, lease.Release(t.Context()))
		}
		for range locktest.Scaled(400, 15) {
			ctx, cancel := context.WithCancel(t.Context())
			stop := time.AfterFunc(rand.N(2*took), cancel)
			lease, err := multi.Acquire(ctx)
			stop.Stop()
			cancel()
			if err == nil {
				require.Len(t, m.held(t), 4)
				require.NoError(t, lease.Release(t.Context()))
				continue
			}
			cancelled++
			require.ErrorIs(t, err, context.Canceled)
			locktest.Await(t, "nothing to be left", func() bool { return len(m.held(t)) == 0 })
		}
		t.Logf("cancelled %d times", cancelled)
	})
}

// Many callers want random subsets of a few locks, in any order. All get them, and no lock ever has two holders.
func TestMultiLock_OneHolderAtATime(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		const names = 5
		inside := make([]atomic.Int32, names)
		rounds := locktest.Scaled(40, 5)
		var group sync.WaitGroup
		for range 3 {
			rt := p.Runtime(t, holdfast.Options{})
			m := newTeam(p, names, rt)
			for range 4 {
				group.Go(func() {
					for range rounds {
						which := rand.Perm(names)[:1+rand.IntN(names)]
						var locks []*holdfast.Lock
						for _, i := range which {
							locks = append(locks, m.locks[i])
						}
						err := holdfast.Multi(locks...).Do(t.Context(), func(ctx context.Context) error {
							for _, i := range which {
								assert.Equal(t, int32(1), inside[i].Add(1))
							}
							for _, i := range which {
								inside[i].Add(-1)
							}
							return ctx.Err()
						})
						assert.NoError(t, err)
					}
				})
			}
		}
		group.Wait()
	})
}
