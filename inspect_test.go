package holdfast_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

func TestLock_InspectTellsWhoHoldsAndWaits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt, other := p.runtime(t, holdfast.Options{}), p.runtime(t, holdfast.Options{})
		inspect := func(rt *holdfast.Runtime) holdfast.State {
			state, err := p.lock(rt).Inspect(t.Context())
			require.NoError(t, err)
			return state
		}
		assert.Equal(t, holdfast.State{}, inspect(rt), "free")

		owner := rt.NewOwner()
		lease := acquire(t, p.lock(rt), holdfast.WithOwner(owner))
		again := acquire(t, p.lock(rt), holdfast.WithOwner(owner))
		pending := p.lock(other).AcquireAsync(t.Context())
		p.waitForWaiting(t, other, 1)
		here, there := inspect(rt), inspect(other)

		for _, state := range []*holdfast.State{&here, &there} {
			assert.Greater(t, state.TTL, 20*time.Second)
			assert.LessOrEqual(t, state.TTL, 30*time.Second)
			state.TTL = 0
		}
		held := holdfast.State{Held: true, Holders: []holdfast.Holder{{ID: lease.ID(), Holds: 1}}, Mode: "exclusive"}
		held.Local = []string{owner.String(), owner.String()}
		assert.Equal(t, held, here)
		held.Local, held.Waiting = nil, 1
		assert.Equal(t, held, there)
		release(t, again)
		release(t, lease)
		next, err := pending.Lease()
		require.NoError(t, err)
		assert.Equal(t, []string{next.ID()}, inspect(other).Local, "a lease without an owner goes by its ID")
		release(t, next)
		assert.Equal(t, holdfast.State{}, inspect(rt), "free again")
	})
}

func TestLock_InspectSeesWhatHasNoTTL(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		require.NoError(t, p.redis.HSet(t.Context(), p.name, "somebody:1", 3).Err())
		state, err := p.lock(p.runtime(t, holdfast.Options{})).Inspect(t.Context())
		require.NoError(t, err)
		assert.True(t, state.Held)
		assert.Equal(t, []holdfast.Holder{{ID: "somebody:1", Holds: 3}}, state.Holders)
		assert.LessOrEqual(t, state.TTL, time.Duration(0))
	})
}

func TestLock_ForceReleaseFreesWhoeverHolds(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		var events recorder
		rt, other := p.runtime(t, holdfast.Options{OnEvent: events.record}), p.runtime(t, holdfast.Options{})
		held, err := p.lock(rt).ForceRelease(t.Context())
		require.NoError(t, err)
		assert.False(t, held, "it was free")

		lease := acquire(t, p.lock(rt))
		pending := p.lock(other).AcquireAsync(t.Context())
		p.waitForWaiter(t, other)
		held, err = p.lock(rt).ForceRelease(t.Context())
		require.NoError(t, err)
		assert.True(t, held)
		assert.False(t, lease.Valid(), "a holder of the same runtime is told at once")
		assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
		next, err := pending.Lease()
		require.NoError(t, err, "waiters elsewhere are woken")
		await(t, "the event", func() bool {
			lost := recorded[holdfast.LeaseLost](&events)
			return len(lost) == 1 && lost[0].Name == p.name && lost[0].ID == lease.ID()
		})

		assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
		assert.True(t, next.Valid(), "the next holder is not touched")
		release(t, next)
	})
}

func TestLock_HandlesAreNames(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt := p.runtime(t, holdfast.Options{})
		lock := p.lock(rt)
		assert.Equal(t, p.name, lock.Name())
		assert.Equal(t, lock.PID(), p.lock(rt).PID())
		lease := acquire(t, lock)
		assert.Equal(t, p.name, lease.Name())
		assert.Contains(t, lease.ID(), rt.ID()+":")
		assert.Zero(t, lease.Token())
		_, err := p.lock(rt).TryAcquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired, "two handles are one lock")
		release(t, lease)
		assert.NotEqual(t, rt.NewOwner(), rt.NewOwner())
		assert.Contains(t, rt.NewOwner().String(), rt.ID())
		assert.Empty(t, holdfast.Owner{}.String())
	})
}
