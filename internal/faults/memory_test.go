package faults_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// A server without memory refuses new locks, and nothing is left of them in Redis. Held locks are renewed and can be released.
func TestFault_ServerOutOfMemory(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		lease := locktest.Unhurried(time.Second)
		rt := p.Runtime(t, holdfast.Options{Lease: lease})
		held := locktest.Acquire(t, p.Lock(rt))
		kept := locktest.Acquire(t, p.Another(t).Lock(rt))
		fillMemory(t, p)

		locktest.Stays(t, "the leases are renewed", 3*lease/2, func() bool { return held.Valid() && kept.Valid() })
		// Redis checks its memory only before the first write of a script. A delete passes this check, so a script whose first write is a delete may
		// succeed.
		for _, options := range [][]holdfast.AcquireOption{nil, {holdfast.WithLease(time.Hour)}} {
			lost := p.Another(t)
			lease, err := lost.Lock(rt).Acquire(t.Context(), options...)
			if err == nil {
				locktest.Release(t, lease)
			} else {
				assert.ErrorContains(t, err, `acquire "`+lost.Name+`": OOM`)
			}
			assert.False(t, lost.Exists(t), "nothing is left of it")
		}
		locktest.Release(t, held)
		assert.False(t, p.Exists(t), "released")
		locktest.Release(t, kept)

		require.NoError(t, p.Redis.ConfigSet(t.Context(), "maxmemory", "0").Err())
		locktest.Release(t, locktest.Acquire(t, p.Lock(rt)))
	})
}

// Without memory, permits are still renewed and can be released.
func TestFault_PermitsOutOfMemory(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	p := locktest.OnServerOfItsOwn(t)
	s := p.Runtime(t, holdfast.Options{Lease: lease}).PermitSemaphore(p.Name)
	_, err := s.TrySetPermits(t.Context(), 2)
	require.NoError(t, err)
	held, kept := locktest.AcquirePermit(t, s), locktest.AcquirePermit(t, s)
	fillMemory(t, p)
	awaitRenewal(t, held)
	awaitRenewal(t, kept)
	locktest.Release(t, held)
	locktest.Release(t, kept)
	n, err := s.Available(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, n)
}

// fillMemory leaves the server no memory.
func fillMemory(t *testing.T, p *locktest.Place) {
	require.NoError(t, p.Redis.Set(t.Context(), "filling", strings.Repeat("x", 8<<20), 0).Err())
	require.NoError(t, p.Redis.ConfigSet(t.Context(), "maxmemory", "4mb").Err())
}
