package promises_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// The lease given to WithRenewedLease is the key's TTL, and Options.Lease does not matter. The lease is renewed for as long as the lock is held,
// and the holder learns of a loss within a third of the lease.
func TestRenewedLease_LastsAndIsWatched(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Kinds {
		for _, lease := range []time.Duration{50 * time.Millisecond, 3 * time.Second, 10 * time.Minute} {
			t.Run(kind.Name+" "+lease.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					server, calls := locktest.NewBubble(t), new(locktest.CountPipelines)
					lock := kind.Lock(server.Runtime(t, &locktest.Pipes{}, holdfast.Options{}, calls), "orders")
					held, err := lock.Acquire(t.Context(), holdfast.WithRenewedLease(lease))
					require.NoError(t, err)
					assert.InDelta(t, lease, server.TTL("orders"), float64(lease/50))
					began := calls.N.Load()

					for range 10 {
						<-time.After(lease / 2)
						synctest.Wait()
						require.NoError(t, held.Err())
						require.Greater(t, server.TTL("orders"), lease/3)
					}
					assert.LessOrEqual(t, calls.N.Load()-began, int64(20), "three renewals in each lease, perhaps a little early")

					server.Del("orders")
					lost := time.Now()
					<-held.Done()
					assert.LessOrEqual(t, time.Since(lost), lease/3+time.Millisecond)
				})
			})
		}
	}
}

// Without Redis, a renewed lease ends at its deadline, before its key expires.
func TestRenewedLease_EndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{50 * time.Millisecond, 3 * time.Second, 10 * time.Minute} {
		t.Run(lease.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := holdfasttest.New(t)
				rt := server.Runtime()
				held, err := rt.Lock("orders").Acquire(t.Context(), holdfast.WithRenewedLease(lease))
				require.NoError(t, err)
				<-time.After(10 * lease)
				synctest.Wait()
				server.Cut(rt)
				deadline := held.ExpiresAt()
				<-held.Done()
				assert.InDelta(t, 0, time.Since(deadline).Seconds(), 0.001)
				assert.NotZero(t, server.Client().Exists(t.Context(), "orders").Val())
				server.Heal(rt)
			})
		})
	}
}

// A grant acquired WithRenewedLease has one holder. It is neither handed on to the next waiter nor shared with other readers.
func TestRenewedLease_IsForOneHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		rt := server.Runtime()
		terms := []holdfast.AcquireOption{holdfast.WithRenewedLease(5 * time.Second)}
		for _, lock := range []*holdfast.Lock{rt.Lock("plain"), rt.FencedLock("fenced"), rt.RWLock("write").Write()} {
			for _, next := range [][]holdfast.AcquireOption{terms, nil, terms} {
				first, err := lock.Acquire(t.Context(), terms...)
				require.NoError(t, err)
				waiting := lock.AcquireAsync(t.Context(), next...)
				synctest.Wait()
				id := first.ID()
				require.NoError(t, first.Release(t.Context()))
				second, err := waiting.Lease()
				require.NoError(t, err)
				assert.NotEqual(t, id, second.ID(), lock.Name())
				want := map[bool]time.Duration{true: 5 * time.Second, false: 30 * time.Second}[len(next) > 0]
				assert.InDelta(t, want, server.Client().PTTL(t.Context(), lock.Name()).Val(), float64(want/100))
				require.NoError(t, second.Release(t.Context()))
			}
		}

		read := rt.RWLock("read").Read()
		one, err := read.Acquire(t.Context(), terms...)
		require.NoError(t, err)
		other, err := read.Acquire(t.Context())
		require.NoError(t, err)
		assert.NotEqual(t, one.ID(), other.ID())
		require.NoError(t, one.Release(t.Context()))
		require.NoError(t, other.Release(t.Context()))
	})
}

// WithRenewedLease works for permits, too, and for every member of a multi lock. If an owner re-enters with this option, the lease of its first
// acquire remains as it is.
func TestRenewedLease_OfPermitsReentriesAndMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		rt := server.Runtime()
		terms := holdfast.WithRenewedLease(4 * time.Second)
		permits := rt.PermitSemaphore("permits")
		require.NoError(t, permits.SetPermits(t.Context(), 1))
		permit, err := permits.Acquire(t.Context(), terms)
		require.NoError(t, err)
		left := func(l *holdfast.Lease) time.Duration { return time.Until(l.ExpiresAt()) }
		assert.InDelta(t, 4, left(permit).Seconds(), 0.1)
		<-time.After(time.Minute)
		require.True(t, permit.Valid())
		require.NoError(t, permit.Release(t.Context()))

		owner := holdfast.WithOwner(rt.NewOwner())
		first, err := rt.Lock("orders").Acquire(t.Context(), owner)
		require.NoError(t, err)
		second, err := rt.Lock("orders").Acquire(t.Context(), owner, terms)
		require.NoError(t, err)
		assert.InDelta(t, 30, left(second).Seconds(), 0.5)
		assert.Equal(t, first.ID(), second.ID())
		require.NoError(t, first.Release(t.Context()))
		require.NoError(t, second.Release(t.Context()))

		both, err := holdfast.Multi(rt.Lock("one"), rt.FairLock("two")).Acquire(t.Context(), terms)
		require.NoError(t, err)
		for _, member := range both.Members() {
			assert.InDelta(t, 4, left(member).Seconds(), 0.1, member.Name())
		}
		<-time.After(time.Minute)
		require.True(t, both.Valid())
		require.NoError(t, both.Release(t.Context()))
	})
}

// An invalid option is rejected before anything is sent.
func TestRenewedLease_Invalid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := holdfasttest.New(t).Runtime()
		for _, d := range []time.Duration{-1, 0, 49 * time.Millisecond, 25 * time.Hour} {
			_, err := rt.Lock("orders").Acquire(context.Background(), holdfast.WithRenewedLease(d))
			assert.ErrorIs(t, err, holdfast.ErrInvalid, "%v", d)
		}
		_, err := rt.Lock("orders").Acquire(context.Background(), holdfast.WithRenewedLease(time.Second), holdfast.WithLease(time.Second))
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		_, err = holdfast.Multi(rt.Lock("a"), rt.Lock("b")).Acquire(context.Background(), holdfast.WithRenewedLease(0))
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
	})
}
