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

// A demand is lost with the connection that should receive it. The waiter tries again, and acquires the lock long before Options.Linger is over.
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
		assert.Less(t, time.Since(began), 3*time.Second+5*stalls.Take())
	}
}

// A process dies while it lets a lock linger. The lock is free when its lease expires.
func TestFault_DeadProcessLingers(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	const lease, linger = 2 * time.Second, 500 * time.Millisecond
	one, proxy := p.Proxied(t, holdfast.Options{Lease: lease, Linger: linger, Logger: locktest.Quiet()})
	locktest.Release(t, locktest.Acquire(t, one.Lock(p.Name)))
	proxy.Blackhole(true)
	began := time.Now()
	locktest.Release(t, locktest.Acquire(t, p.Runtime(t, holdfast.Options{}).Lock(p.Name)))
	took := time.Since(began)
	assert.Greater(t, took, linger)
	assert.Less(t, took, lease+5*time.Second)
}
