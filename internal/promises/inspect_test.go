package promises_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func TestLock_InspectTellsWhoHoldsAndWaits(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		var given []int64 // the tokens that Inspect has returned
		inspect := func(rt *holdfast.Runtime) holdfast.State {
			state, err := p.Lock(rt).Inspect(t.Context())
			require.NoError(t, err)
			given = append(given, state.Token)
			state.Token = 0
			return state
		}
		assert.Equal(t, holdfast.State{}, inspect(rt), "free")

		owner := rt.NewOwner()
		lease := locktest.Acquire(t, p.Lock(rt), holdfast.WithOwner(owner))
		again := locktest.Acquire(t, p.Lock(rt), holdfast.WithOwner(owner))
		pending := p.Lock(other).AcquireAsync(t.Context())
		p.WaitForWaiting(t, other, 1)
		here, there := inspect(rt), inspect(other)

		for _, state := range []*holdfast.State{&here, &there} {
			assert.Greater(t, state.TTL, 20*time.Second)
			assert.LessOrEqual(t, state.TTL, 30*time.Second)
			state.TTL = 0
			if p.Kind.Queued {
				require.Len(t, state.Queue, 1)
				assert.Contains(t, state.Queue[0], other.ID()+":")
				state.Queue = nil
			}
		}
		held := holdfast.State{Held: true, Holders: []holdfast.Holder{{ID: lease.ID(), Holds: 1}}, Mode: p.Kind.Mode}
		held.Local = []string{owner.String(), owner.String()}
		assert.Equal(t, held, here)
		held.Local, held.Waiting = nil, 1
		assert.Equal(t, held, there)
		locktest.Release(t, again)
		locktest.Release(t, lease)
		next, err := pending.Lease()
		require.NoError(t, err)
		assert.Equal(t, []string{next.ID()}, inspect(other).Local, "a lease without an owner is listed by its ID")
		locktest.Release(t, next)
		assert.Equal(t, holdfast.State{}, inspect(rt), "free again")
		assert.IsNonDecreasing(t, given)
		assert.GreaterOrEqual(t, given[1], lease.Token())
		assert.GreaterOrEqual(t, given[len(given)-1], next.Token())
	})
}

func TestLock_InspectSeesWhatHasNoTTL(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		require.NoError(t, p.Redis.HSet(t.Context(), p.Name, locktest.Stranger(1), 3).Err())
		state, err := p.Lock(p.Runtime(t, holdfast.Options{})).Inspect(t.Context())
		require.NoError(t, err)
		assert.True(t, state.Held)
		assert.Equal(t, []holdfast.Holder{{ID: locktest.Stranger(1), Holds: 3}}, state.Holders)
		assert.LessOrEqual(t, state.TTL, time.Duration(0))
	})
}

func TestLock_ForceReleaseFreesWhoeverHolds(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		var events locktest.Recorder
		rt, other := p.Runtime(t, holdfast.Options{OnEvent: events.Record}), p.Runtime(t, holdfast.Options{})
		held, err := p.Lock(rt).ForceRelease(t.Context())
		require.NoError(t, err)
		assert.False(t, held, "it was free")

		lease := locktest.Acquire(t, p.Lock(rt))
		pending := p.Lock(other).AcquireAsync(t.Context())
		p.WaitForWaiter(t, other)
		held, err = p.Lock(rt).ForceRelease(t.Context())
		require.NoError(t, err)
		assert.True(t, held)
		assert.False(t, lease.Valid(), "a holder in the same runtime is notified at once")
		assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
		next, err := pending.Lease()
		require.NoError(t, err, "waiters elsewhere are woken")
		locktest.Await(t, "the event", func() bool {
			lost := locktest.Recorded[holdfast.LeaseLost](&events)
			return len(lost) == 1 && lost[0].Name == p.Name && lost[0].ID == lease.ID()
		})

		assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
		assert.True(t, next.Valid(), "the next holder is not touched")
		locktest.Release(t, next)
	})
}

func TestLock_HandlesAreNames(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		lock := p.Lock(rt)
		assert.Equal(t, p.Name, lock.Name())
		assert.Equal(t, lock.PID(), p.Lock(rt).PID())
		lease := locktest.Acquire(t, lock)
		assert.Equal(t, p.Name, lease.Name())
		assert.Contains(t, lease.ID(), rt.ID()+":")
		assert.Equal(t, p.Kind.Fenced, lease.Token() != 0)
		_, err := p.Lock(rt).TryAcquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired, "two handles with one name are one lock")
		locktest.Release(t, lease)
		assert.NotEqual(t, rt.NewOwner(), rt.NewOwner())
		assert.Contains(t, rt.NewOwner().String(), rt.ID())
		assert.Empty(t, holdfast.Owner{}.String())
	})
}
