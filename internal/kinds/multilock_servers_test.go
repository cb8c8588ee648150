package kinds_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func TestMultiLock_OneOfManyTriesWins(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		var won atomic.Pointer[holdfast.Lease]
		var wins atomic.Int32
		var group sync.WaitGroup
		for range 2 {
			m := newTeam(p, 3, p.Runtime(t, holdfast.Options{}))
			for range 5 {
				group.Go(func() {
					lease, err := holdfast.Multi(m.locks...).TryAcquire(t.Context(), holdfast.WithLease(time.Minute))
					if err == nil {
						won.Store(lease)
						wins.Add(1)
					} else {
						assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
					}
				})
			}
		}
		group.Wait()
		require.Equal(t, int32(1), wins.Load())
		locktest.Release(t, won.Load())
	})
}

func TestMultiLock_OverSeveralServers(t *testing.T) {
	t.Parallel()
	onServers(t, 3, func(t *testing.T, s *servers) {
		one, two := holdfast.Multi(s.locks(t, holdfast.Options{})...), holdfast.Multi(s.locks(t, holdfast.Options{})...)
		lease := acquireAll(t, one)
		assert.Len(t, s.held(t), 3)
		for range 2 {
			_, err := two.TryAcquire(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		}
		assert.True(t, lease.Valid())
		locktest.Release(t, lease)
		locktest.Release(t, acquireAll(t, two))

		lease = acquireAll(t, one) // one unreachable server is enough to fail a release and an acquire
		s.proxies[1].Blackhole(true)
		assert.Error(t, lease.Release(soon(t)), "not confirmed")
		_, err := two.Acquire(soon(t))
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		s.proxies[1].Heal()
		s.awaitHeld(t, 0)
	})
}

// soon is a context that ends soon.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// Members may share servers, as long as their names differ.
func TestRedLock_OfManyNamesOnTwoServers(t *testing.T) {
	t.Parallel()
	onServers(t, 2, func(t *testing.T, s *servers) {
		counter := 0 // guarded by the lock alone
		var group sync.WaitGroup
		for range 2 {
			var runtimes []*holdfast.Runtime
			for _, server := range s.all {
				runtimes = append(runtimes, locktest.NewRuntime(t, locktest.NewClient(t, server.Addr()), holdfast.Options{}))
			}
			var locks []*holdfast.Lock
			for i := range 7 {
				locks = append(locks, s.kind.Lock(runtimes[i%2], fmt.Sprintf("%s-%d", s.name, i)))
			}
			for range 5 {
				group.Go(func() {
					for done := 0; done < 5; {
						lease, err := holdfast.Red(locks...).Acquire(t.Context(), holdfast.WithWait(4*time.Second), holdfast.WithLease(20*time.Second))
						if err != nil {
							assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
							continue
						}
						counter++
						done++
						assert.NoError(t, lease.Release(t.Context()))
					}
				})
			}
		}
		group.Wait()
		assert.Equal(t, 50, counter)
	})
}
