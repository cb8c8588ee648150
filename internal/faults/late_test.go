package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

const lateLease = 200 * time.Millisecond

// warm opens the link's connections and loads the scripts.
func warm(t *testing.T, lock *holdfast.Lock) {
	locktest.Release(t, locktest.Acquire(t, lock, holdfast.WithLease(time.Minute)))
}

// A grant that arrives after its lease has ended does not count: no caller gets a lease, and Redis does not keep the grant.
func TestFault_GrantAfterItsLease(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		var acquires sync.WaitGroup
		for _, way := range []struct {
			lease   time.Duration // Options.Lease, which the watchdog renews
			options []holdfast.AcquireOption
		}{
			{lateLease, nil},
			{30 * time.Second, []holdfast.AcquireOption{holdfast.WithLease(lateLease)}},
		} {
			rt, proxy := p.Proxied(t, holdfast.Options{Lease: way.lease})
			warm(t, p.Lock(rt))
			proxy.Delay(faultproxy.ToClient, lateLease+50*time.Millisecond)
			for range locktest.Scaled(50, 4) {
				q := p.Another(t)
				acquires.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 3*lateLease)
					defer cancel()
					_, err := q.Lock(rt).Acquire(ctx, way.options...)
					assert.Error(t, err, "every reply is too late")
				})
			}
		}
		acquires.Wait()
		locktest.Await(t, "everything to be gone, on a link that is late", func() bool { return len(p.Keys(t)) == 0 })
	})
}

// While replies arrive too late, a waiter gets no grant. Once the link works again, the waiter gets a new grant. Its lease begins after the repair.
func TestFault_GrantAfterLateOnes(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		rt, proxy := p.Proxied(t, holdfast.Options{})
		warm(t, p.Lock(rt))
		for range locktest.Scaled(20, 2) {
			proxy.Delay(faultproxy.ToClient, lateLease+50*time.Millisecond)
			asked := time.Now()
			pending := p.Lock(rt).AcquireAsync(t.Context(), holdfast.WithLease(lateLease))
			locktest.Await(t, "a grant whose reply is too late", func() bool { return time.Since(asked) > 2*lateLease })
			locktest.Open(t, "the grant", pending.Done())
			proxy.Heal()
			proxy.Cut()
			healed := time.Now()
			lease, err := pending.Lease()
			require.NoError(t, err)
			if until := lease.ExpiresAt(); !until.IsZero() {
				assert.Greater(t, until.Sub(healed), lateLease/2, "counted from after the healing")
			}
			_ = lease.Release(t.Context()) // on a busy machine the lease may already be lost
			locktest.Await(t, "the key to be gone", func() bool { return !p.Exists(t) })
		}
	})
}
