package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

var lingers = holdfast.Options{Lease: 40 * time.Second, Linger: 10 * time.Second}

// A demand for a lingering lock is lost with the connection that should have received it. The process in which the lock lingers frees the lock as
// soon as the process has a new connection, before the waiter tries again.
func TestFault_LostDemandComesAgain(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	stalls := locktest.WatchStalls(t, p)
	one, other := p.Runtime(t, lingers), p.Runtime(t, holdfast.Options{})
	for range locktest.Scaled(5, 2) {
		locktest.Release(t, locktest.Acquire(t, one.Lock(p.Name)))
		locktest.Await(t, "the demand channel", func() bool { return len(p.Redis.PubSubChannels(t.Context(), "holdfast_demand:*").Val()) == 1 })
		require.Positive(t, p.Redis.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Val())
		began := time.Now()
		locktest.Release(t, locktest.Acquire(t, other.Lock(p.Name)))
		assert.Less(t, time.Since(began), 700*time.Millisecond+5*stalls.Take(), "the waiter asks again only after a second")
	}
}

// A process dies while it lets a lock linger. The lock is free when its lease expires.
func TestFault_DeadProcessLingers(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	const lease, linger = 2 * time.Second, 500 * time.Millisecond
	one, proxy := p.Proxied(t, holdfast.Options{Lease: lease, Linger: linger, Logger: locktest.Quiet()})
	other := p.Runtime(t, holdfast.Options{})
	locktest.Await(t, "the process to receive demands", func() bool { // before that, a lock may stop lingering at any time
		locktest.Release(t, locktest.Acquire(t, one.Lock("another")))
		began := time.Now()
		locktest.Release(t, locktest.Acquire(t, other.Lock("another")))
		return time.Since(began) < linger
	})
	locktest.Release(t, locktest.Acquire(t, one.Lock(p.Name)))
	proxy.Blackhole(true)
	began := time.Now()
	locktest.Release(t, locktest.Acquire(t, other.Lock(p.Name)))
	took := time.Since(began)
	assert.Greater(t, took, linger)
	assert.Less(t, took, lease+5*time.Second)
}
