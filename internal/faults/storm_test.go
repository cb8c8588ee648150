package faults_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Thousands of leases are renewed in time although acquires keep the machine fully busy. One watchdog serves all kinds, so the test uses only
// one kind.
func TestFault_RenewalsBesideAStorm(t *testing.T) {
	t.Parallel()
	// The full run has 5 000 locks with leases of 10 s, and lasts 25 s. A short run is smaller, so that a busy machine finishes it in a few seconds.
	lease := time.Duration(locktest.Scaled(10, 3)) * time.Second
	server := redistest.Start(t)
	var events locktest.Recorder
	client := locktest.NewClient(t, server.Addr())
	rt := locktest.NewRuntime(t, client, holdfast.Options{Lease: lease, OnEvent: events.Record})
	stalls := locktest.WatchStalls(t, &locktest.Place{Addr: server.Addr()})
	names, leases := holdLocks(t, rt, locktest.Scaled(5000, 250))
	stop := make(chan struct{})
	var storm sync.WaitGroup
	var pairs atomic.Int64
	prefix := redistest.Name(t)
	for range 64 {
		storm.Go(func() { acquireAndRelease(rt, prefix, stop, &pairs) })
	}
	stalls.Take()

	late := watchRenewals(t, locktest.NewClient(t, server.Addr()), names, lease)

	close(stop)
	storm.Wait()
	slices.Sort(late)
	stall := stalls.Take()
	require.Greater(t, len(late), 3*len(names), "each was renewed several times")
	p50, p99, worst := late[len(late)/2], late[len(late)*99/100], late[len(late)-1]
	t.Logf("%d locks, lease %v, beside %d acquires: %d renewals, late by %v (median), %v (p99), %v (worst); stalls up to %v",
		len(names), lease, pairs.Load(), len(late), p50, p99, worst, stall)
	assert.Less(t, p99, lease/6+5*stall)
	if stall < lease/3 {
		assert.Empty(t, locktest.Recorded[holdfast.LeaseLost](&events))
		for _, held := range leases {
			require.True(t, held.Valid())
		}
	}
}

// holdLocks acquires n locks.
func holdLocks(t *testing.T, rt *holdfast.Runtime, n int) (names []string, leases []*holdfast.Lease) {
	prefix := redistest.Name(t)
	pending := make([]*holdfast.Pending, n)
	for i := range n {
		names = append(names, prefix+strconv.Itoa(i))
		pending[i] = rt.Lock(names[i]).AcquireAsync(t.Context())
	}
	for _, p := range pending {
		lease, err := p.Lease()
		require.NoError(t, err)
		leases = append(leases, lease)
	}
	return names, leases
}

func acquireAndRelease(rt *holdfast.Runtime, prefix string, stop chan struct{}, pairs *atomic.Int64) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		err := rt.Lock(prefix+strconv.Itoa(rand.IntN(1000))).Do(context.Background(), func(context.Context) error { return nil })
		if err == nil { // otherwise the machine has stalled for long
			pairs.Add(1)
		}
	}
}

// watchRenewals polls the keys' TTLs for two and a half times the lease. Renewals are due after a third of the lease. For each renewal, watchRenewals
// returns how late it was; 0 means that it was in time.
func watchRenewals(t *testing.T, client *redis.Client, names []string, lease time.Duration) (late []time.Duration) {
	lowest := make([]time.Duration, len(names))
	for i := range lowest {
		lowest[i] = lease
	}
	looks := time.NewTicker(lease / 100)
	defer looks.Stop()
	for start := time.Now(); time.Since(start) < lease*5/2; <-looks.C {
		pipe := client.Pipeline()
		ttls := make([]*redis.DurationCmd, len(names))
		for i, name := range names {
			ttls[i] = pipe.PTTL(context.Background(), name)
		}
		_, err := pipe.Exec(context.Background())
		require.NoError(t, err)
		for i := range names {
			ttl := ttls[i].Val()
			if ttl > lowest[i] {
				late = append(late, max(0, lease*2/3-lowest[i]))
			}
			lowest[i] = ttl
		}
	}
	return late
}
