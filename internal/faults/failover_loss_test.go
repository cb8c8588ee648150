package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestFault_FailoverForgetsAGrant fails over to a replica that did not get the last grant, so there are two holders. The first one learns of its
// loss at its next renewal, and the second one's token is larger. With AckReplicas the grant would have been refused.
func TestFault_FailoverForgetsAGrant(t *testing.T) {
	t.Parallel()
	g := redistest.StartGuarded(t, time.Second)
	options := holdfast.Options{Lease: failoverLease}
	first, second := locktest.NewRuntime(t, g.Client(t), options), locktest.NewRuntime(t, g.Client(t), options)
	options.AckReplicas, options.AckTimeout = 1, 100*time.Millisecond
	careful := locktest.NewRuntime(t, g.Client(t), options)
	name := redistest.Name(t)
	locktest.Release(t, locktest.Acquire(t, second.FencedLock(name)))
	locktest.Release(t, locktest.Acquire(t, careful.FencedLock(redistest.Name(t))))

	replica := g.Servers[1].Client(t)
	require.NoError(t, replica.ReplicaOf(t.Context(), "127.0.0.1", "1").Err()) // no server there
	lease := locktest.Acquire(t, first.FencedLock(name))
	_, err := careful.FencedLock(redistest.Name(t)).Acquire(t.Context())
	assert.ErrorIs(t, err, holdfast.ErrNotReplicated)
	g.FailOver()
	over := time.Now()
	next := locktest.Acquire(t, second.FencedLock(name))
	t.Logf("the next holder acquired the lock %v after the failover; the first holder's lease is still valid: %v", time.Since(over), lease.Valid())
	assert.Greater(t, next.Token(), lease.Token())
	told := locktest.Closed(t, "Done", lease.Done()).Sub(over)
	t.Logf("the first holder learned of its loss after %v", told)
	assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
	assert.Less(t, told, failoverLease/3+servedWithin)
	assert.True(t, next.Valid())
	locktest.Release(t, next)
	g.Restore()
}
