package promises_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

// A lock actor should never panic. If one does, nobody hangs: holders learn that their leases are lost, waiters are served, and the true state
// is read from Redis.

// trap makes one lock actor panic. After the trap is set, the next lock actor that asks for jitter panics. Lock actors ask for jitter after a refusal
// by Redis, or after a failure.
type trap struct {
	set    atomic.Bool
	events locktest.Recorder
	rt     *holdfast.Runtime
	proxy  *faultproxy.Proxy
}

func newTrap(t *testing.T, p *locktest.Place) *trap {
	trap := &trap{}
	options := holdfast.Options{OnEvent: trap.events.Record, PubSub: p.PubSub}
	client, proxy := p.ProxiedClient(t)
	trap.proxy = proxy
	options.System = locktest.SystemWith(t, &actors.Seams{Jitter: func(d time.Duration) time.Duration {
		if trap.set.CompareAndSwap(true, false) {
			panic("of the lock's actor")
		}
		return d / 2
	}})
	trap.rt = locktest.NewRuntime(t, client, options)
	t.Cleanup(trap.proxy.Heal)
	return trap
}

// sprung waits until a lock actor has panicked.
func (trap *trap) sprung(t *testing.T, p *locktest.Place) {
	t.Helper()
	locktest.Await(t, "the panic", func() bool { return len(locktest.Recorded[holdfast.ActorPanicked](&trap.events)) > 0 })
	event := locktest.Recorded[holdfast.ActorPanicked](&trap.events)[0]
	assert.Equal(t, p.Name, event.Lock())
	assert.Equal(t, "of the lock's actor", event.Value)
	assert.Contains(t, event.Stack, "lock.(*State).Step")
}

func TestRuntime_LockActorPanicsWhileOthersWait(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		trap := newTrap(t, p)
		kept := locktest.Acquire(t, p.Another(t).Lock(trap.rt))
		taken := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
		a := locktest.NewActor(t, trap.rt, p.Lock(trap.rt))
		a.Ask(p.AcquireMessage(1))
		p.WaitForWaiting(t, trap.rt, 1)
		waiting := p.Lock(trap.rt).AcquireAsync(t.Context())
		p.WaitForWaiting(t, trap.rt, 2)
		trap.set.Store(true)
		trap.sprung(t, p)
		assert.Empty(t, a.Answers, "it still waits")

		locktest.Release(t, taken)

		released := make(chan struct{})
		go func() { // either waiter may get the lock first, because both have lost their places in Redis' queue
			defer close(released)
			if lease, err := waiting.Lease(); assert.NoError(t, err) {
				assert.NoError(t, lease.Release(t.Context()))
			}
		}()
		granted := locktest.Answer[*protocol.Granted](t, a)
		a.Ask(p.ReleaseMessage(2, granted.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, a).Err)
		locktest.Closed(t, "the other release", released)
		assert.False(t, p.Exists(t))
		assert.True(t, kept.Valid())
		assert.Empty(t, a.Answers)
	})
}

func TestRuntime_LockActorPanicsWhileItsLockIsHeld(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		trap := newTrap(t, p)
		kept := locktest.Acquire(t, p.Another(t).Lock(trap.rt))
		a := locktest.NewActor(t, trap.rt, p.Lock(trap.rt))
		fixed := p.AcquireMessage(1)
		fixed.Lease = time.Minute
		a.Ask(fixed)
		granted := locktest.Answer[*protocol.Granted](t, a)
		waiting := p.Lock(trap.rt).AcquireAsync(t.Context())
		p.WaitForWaiting(t, trap.rt, 1)
		trap.proxy.Refuse(true)
		trap.proxy.Cut()
		trap.set.Store(true)
		a.Ask(&protocol.Renew{ID: 2, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name, Serial: granted.Serial, Lease: time.Minute})

		trap.sprung(t, p)
		trap.proxy.Heal()

		lost := locktest.Answer[*protocol.Lost](t, a)
		assert.Equal(t, granted.Serial, lost.Serial)
		require.ErrorIs(t, lost.Err, holdfast.ErrLeaseLost)
		assert.False(t, granted.Valid())
		renewed := locktest.Answer[*protocol.Renewed](t, a)
		assert.Equal(t, uint64(2), renewed.ID)
		require.ErrorIs(t, renewed.Err, holdfast.ErrLeaseLost)
		locktest.Await(t, "the event", func() bool { return len(locktest.Recorded[holdfast.LeaseLost](&trap.events)) == 1 })
		assert.Equal(t, holdfast.LossPanicked, locktest.Recorded[holdfast.LeaseLost](&trap.events)[0].Reason)

		lease, err := waiting.Lease() // the old grant is released in the background, long before it would expire
		require.NoError(t, err)
		assert.NotEqual(t, granted.LeaseID, lease.ID())
		locktest.Release(t, lease)
		assert.False(t, p.Exists(t))
		assert.True(t, kept.Valid())
		a.Ask(p.ReleaseMessage(3, granted.Serial))
		require.ErrorIs(t, locktest.Answer[*protocol.Released](t, a).Err, holdfast.ErrNotHeld)
	})
}
