package promises_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// These tests use the read half of a read/write lock while links fail. Each test has fixed steps. The tests of internal/faults use readers and
// writers together, with random faults.

// Readers that are cut off learn of their loss before a writer elsewhere can get the lock. When their link is back, they do not affect the
// leases of other readers.
func TestRWLock_CutOffReadersKnowFirst(t *testing.T) {
	t.Parallel()
	for how, fail := range map[string]func(proxy *faultproxy.Proxy){
		"blackhole":    func(proxy *faultproxy.Proxy) { proxy.Blackhole(true) },
		"replies lost": func(proxy *faultproxy.Proxy) { proxy.SwallowReplies(true) },
		"cut":          func(proxy *faultproxy.Proxy) { proxy.Refuse(true); proxy.Cut() },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			lease := locktest.Unhurried(900 * time.Millisecond)
			p := locktest.OwnPlaceOf(t, "write lock")
			rt, proxy := p.Proxied(t, holdfast.Options{Lease: lease})
			healthy := p.Runtime(t, holdfast.Options{Lease: lease})
			cutOff := []*holdfast.Lease{
				locktest.Acquire(t, rt.RWLock(p.Name).Read()), locktest.Acquire(t, rt.RWLock(p.Name).Read()),
				locktest.Acquire(t, rt.RWLock(p.Name).Read(), holdfast.WithLease(3*lease/2)),
			}
			for _, lease := range cutOff {
				assert.True(t, lease.Valid())
			}
			fail(proxy)
			writer := healthy.RWLock(p.Name).Write().AcquireAsync(t.Context())
			granted := locktest.Granted(t, writer)
			for i, lease := range cutOff {
				assert.False(t, lease.Valid(), "reader %d", i)
				locktest.Closed(t, "its end", lease.Done())
				assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
			}
			locktest.Release(t, granted)

			beside := locktest.Acquire(t, healthy.RWLock(p.Name).Read())
			proxy.Heal()
			again := acquireHealed(t, rt.RWLock(p.Name).Read())
			assert.Equal(t, map[string]string{beside.ID(): "1", again.ID(): "1"}, p.Fields(t), "nothing that was lost is created again")
			locktest.Release(t, again)
			assert.True(t, beside.Valid())
			locktest.Release(t, beside)
			locktest.Await(t, "nothing to be left", func() bool { return len(p.Keys(t)) == 0 })
		})
	}
}

// acquireHealed acquires a lock over a link that has just healed. On a busy machine the runtime may notice too late that the link has healed.
// So if an acquire fails with ErrNotAcquired or with a timeout, acquireHealed tries again.
func acquireHealed(t *testing.T, lock *holdfast.Lock) (lease *holdfast.Lease) {
	t.Helper()
	locktest.Await(t, "a lock over a healed link", func() (acquired bool) {
		var err error
		if lease, err = lock.Acquire(t.Context()); err != nil && !errors.Is(err, holdfast.ErrNotAcquired) {
			var unanswered net.Error
			require.ErrorAs(t, err, &unanswered)
			require.True(t, unanswered.Timeout(), err)
		}
		return err == nil
	})
	return lease
}

// If the reply to a reader's call is lost, the call counts only once, even while another reader holds the lock. After the readers' releases, nothing
// is left in Redis that would keep writers out.
func TestRWLock_LostReplyOfAReaderCountsOnce(t *testing.T) {
	t.Parallel()
	for what, show := range map[string]func(t *testing.T, l *lossy){
		"acquire":           loseReaderAcquire,
		"acquire, given up": loseReaderAbandoned,
		"release":           loseReaderRelease,
		"renew":             loseReaderRenewal,
		"extend":            loseReaderExtend,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := locktest.OwnPlaceOf(t, "write lock")
			rt, proxy := p.Proxied(t, holdfast.Options{Lease: unusedLease()})
			other := p.Runtime(t, holdfast.Options{})
			require.NoError(t, other.Check(t.Context())) // loads all scripts, so the reply that will be lost is not a NOSCRIPT error
			beside := locktest.Acquire(t, other.RWLock(p.Name).Read())
			l := &lossy{Place: p, proxy: proxy, lock: rt.RWLock(p.Name).Read(), other: other.RWLock(p.Name).Write()}
			show(t, l)
			assert.Positive(t, proxy.Dropped(), "a reply was lost")
			l.assertReaders(t, beside)
			locktest.Release(t, beside)
			locktest.Release(t, locktest.Acquire(t, l.other))
			assert.Empty(t, p.Keys(t))
		})
	}
}

// assertReaders asserts that these leases hold the lock, once each, and nobody else does.
func (l *lossy) assertReaders(t *testing.T, leases ...*holdfast.Lease) {
	t.Helper()
	want := map[string]string{}
	for _, lease := range leases {
		assert.True(t, lease.Valid())
		want[lease.ID()] = "1"
	}
	assert.Equal(t, want, l.Fields(t))
	assert.Len(t, l.TimeoutKeys(t), len(leases))
}

func loseReaderAcquire(t *testing.T, l *lossy) {
	for _, options := range [][]holdfast.AcquireOption{nil, {holdfast.WithLease(time.Minute)}} {
		l.loseNext()
		lease := locktest.Acquire(t, l.lock, options...)
		assert.Len(t, l.Fields(t), 2)
		assert.Equal(t, "1", l.Fields(t)[lease.ID()])
		assert.Len(t, l.TimeoutKeys(t), 2)
		locktest.Release(t, lease)
	}
}

// loseReaderAbandoned gives up an acquire that Redis has granted. The orphaned grant is released long before its lease is over.
func loseReaderAbandoned(t *testing.T, l *lossy) {
	l.proxy.DropReplies(1000, faultproxy.Containing(l.Name))
	ctx, cancel := context.WithCancel(t.Context())
	pending := l.lock.AcquireAsync(ctx, holdfast.WithLease(time.Hour))
	locktest.Await(t, "the grant", func() bool { return len(l.Fields(t)) == 2 })
	cancel()
	_, err := pending.Lease()
	assert.ErrorIs(t, err, context.Canceled)
	l.proxy.Heal()
	locktest.Await(t, "the orphan's end", func() bool { return len(l.Fields(t)) == 1 && len(l.TimeoutKeys(t)) == 1 })
}

func loseReaderRelease(t *testing.T, l *lossy) {
	lease := locktest.Acquire(t, l.lock)
	l.loseNext()
	assert.NoError(t, lease.Release(t.Context()), "no false loss")
	assert.ErrorIs(t, lease.Err(), holdfast.ErrNotHeld)
}

func loseReaderRenewal(t *testing.T, l *lossy) {
	lease := locktest.Acquire(t, l.lock)
	l.loseNext()
	locktest.Stays(t, "the lease is valid", 2*unusedLease(), lease.Valid)
	locktest.Release(t, lease)
}

func loseReaderExtend(t *testing.T, l *lossy) {
	lease := locktest.Acquire(t, l.lock, holdfast.WithLease(time.Minute))
	l.loseNext()
	assert.NoError(t, lease.Extend(t.Context(), time.Hour))
	assert.InDelta(t, time.Hour.Seconds(), l.Redis.PTTL(t.Context(), l.Place.TimeoutKey(lease.ID())).Val().Seconds(), 5)
	locktest.Release(t, lease)
}
