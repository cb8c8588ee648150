package holdfast_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// The fixed lease of a member that was acquired early is extended to its full length if acquiring a later member took long.
func TestMultiLock_FixedLeaseIsWholeAfterWaiting(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		const fixed = 6 * time.Second
		rt, early, late := p.Runtime(t, holdfast.Options{}), p.Named(p.Name+"-0"), p.Named(p.Name+"-1")
		first := locktest.Acquire(t, early.Lock(rt), holdfast.WithLease(fixed))
		locktest.Await(t, "the first member to have waited", func() bool { return time.Until(first.ExpiresAt()) < fixed*85/100 })
		second := locktest.Acquire(t, late.Lock(rt), holdfast.WithLease(fixed))
		left := second.ExpiresAt()

		holdfast.EvenOut(t.Context(), fixed, []*holdfast.Lease{first, second})
		assert.Greater(t, p.Redis.PTTL(t.Context(), early.Name).Val(), fixed*9/10-locktest.Slack())
		assert.Greater(t, time.Until(first.ExpiresAt()), fixed*85/100-locktest.Slack())
		assert.WithinDuration(t, left, second.ExpiresAt(), 100*time.Millisecond, "the lease of the last member is not extended")
		locktest.Release(t, first)
		holdfast.EvenOut(t.Context(), fixed, []*holdfast.Lease{first, second})
		locktest.Release(t, second)
	})
}

func TestRedLock_NeedsValidityTime(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 10*time.Second-102*time.Millisecond, holdfast.Validity(10*time.Second, 0), "1 % and 2 ms of drift")
	assert.Equal(t, 10*time.Second-602*time.Millisecond, holdfast.Validity(10*time.Second, 500*time.Millisecond))
	assert.Negative(t, holdfast.Validity(time.Second, 990*time.Millisecond))
	for _, lease := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, time.Second, 30 * time.Second, 24 * time.Hour} {
		assert.Positive(t, holdfast.Validity(lease, 2*holdfast.TryTime(lease)), "a lock acquired in twice the time for tries is still valid")
		assert.LessOrEqual(t, holdfast.TryTime(lease), 500*time.Millisecond)
	}
}
