package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestFault_OneOfSeveralFailsOver holds a lock on three masters. One of them fails over to a replica that already has the lock's key. The holder
// keeps the lock, whether the lock needs all masters (Multi) or a majority (Red). After the release, another process acquires it.
func TestFault_OneOfSeveralFailsOver(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]func(...*holdfast.Lock) *holdfast.MultiLock{"multi": holdfast.Multi, "red": holdfast.Red} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartGuarded(t, 500*time.Millisecond)
			servers := []string{redistest.Shared(t).Addr(), redistest.Start(t).Addr()}
			lease, key := 4*failoverLease, redistest.Name(t) // longer than a failover takes
			process := func() *holdfast.MultiLock {
				clients := []redis.UniversalClient{g.Client(t), locktest.NewClient(t, servers[0]), locktest.NewClient(t, servers[1])}
				var members []*holdfast.Lock
				for _, client := range clients {
					members = append(members, locktest.NewRuntime(t, client, holdfast.Options{Lease: lease}).Lock(key))
				}
				return lock(members...)
			}
			acquire := func(m *holdfast.MultiLock) *holdfast.Lease {
				ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
				defer cancel()
				held, err := m.Acquire(ctx)
				require.NoError(t, err)
				return held
			}
			held := acquire(process())
			for deadline := time.Now().Add(locktest.Patience); len(held.Members()) < len(servers)+1; {
				require.True(t, time.Now().Before(deadline), "the fleet never answers in time") // a red lock needs only a majority
				locktest.Release(t, held)
				held = acquire(process())
			}
			for _, server := range g.Servers {
				client := server.Client(t)
				locktest.Await(t, "the whole fleet to have it", func() bool { return client.Exists(t.Context(), key).Val() == 1 })
			}
			g.FailOver()
			for _, member := range held.Members() {
				locktest.Renewed(t, member)
			}
			assert.True(t, held.Valid())

			other := process()
			_, err := other.TryAcquire(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
			locktest.Release(t, held)
			start := time.Now()
			next := acquire(other)
			t.Logf("the next holder acquired the lock after %v", time.Since(start))
			assert.GreaterOrEqual(t, len(next.Members()), 2)
			locktest.Release(t, next)
			g.Restore()
		})
	}
}

// TestFault_SentinelsWithoutQuorum leaves too few Sentinels to replace the master. Locks work as long as the master runs, even in a process that
// starts when the Sentinels are already gone. When the master dies, holders learn of their losses in time, and nobody gets a lock until the Sentinels
// are back.
func TestFault_SentinelsWithoutQuorum(t *testing.T) {
	t.Parallel()
	g := redistest.StartGuarded(t, time.Second)
	runtime := func() *holdfast.Runtime {
		return locktest.NewRuntime(t, g.Client(t), holdfast.Options{Lease: failoverLease})
	}
	before := runtime()
	held := locktest.Acquire(t, before.Lock(redistest.Name(t)))
	for _, sentinel := range g.Sentinels[1:] {
		sentinel.Kill()
	}
	after := runtime()
	for _, rt := range []*holdfast.Runtime{before, after} {
		locktest.Release(t, locktest.Acquire(t, rt.Lock(redistest.Name(t))))
	}
	locktest.Renewed(t, held)

	g.Master().Kill()
	killed := time.Now()
	told := locktest.Closed(t, "Done", held.Done()).Sub(killed)
	assert.Less(t, told, failoverLease+locktest.Slack()+time.Second)
	assert.ErrorIs(t, held.Err(), holdfast.ErrLeaseLost)
	_, err := after.Lock(redistest.Name(t)).Acquire(t.Context())
	require.Error(t, err)
	t.Logf("losses were reported after %v; an acquire is refused: %v", told, err)

	for _, sentinel := range g.Sentinels[1:] {
		sentinel.Restart()
	}
	restarted := time.Now()
	for _, rt := range []*holdfast.Runtime{before, after} {
		locktest.Await(t, "another master", func() bool {
			lease, err := rt.Lock(redistest.Name(t)).TryAcquire(t.Context())
			return err == nil && lease.Release(t.Context()) == nil
		})
	}
	t.Logf("locks could be acquired %v after the Sentinels were back", time.Since(restarted))
}
