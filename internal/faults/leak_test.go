package faults_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// leaky is a runtime whose leases are dropped.
type leaky struct {
	*locktest.Place
	rt     *holdfast.Runtime
	lock   *holdfast.Lock
	events locktest.Recorder
	log    strings.Builder
	mu     sync.Mutex // of log
}

func newLeaky(t *testing.T, p *locktest.Place) *leaky {
	l := &leaky{Place: p}
	l.rt = p.Runtime(t, holdfast.Options{OnEvent: l.events.Record, Logger: slog.New(slog.NewTextHandler(l, nil))})
	l.lock = p.Lock(l.rt)
	return l
}

func (l *leaky) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(line)
}

func (l *leaky) logged() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

func (l *leaky) leaks() []holdfast.LeaseLeaked {
	return locktest.Recorded[holdfast.LeaseLeaked](&l.events)
}

// noticed waits until the collector has found the dropped lease, and the runtime has reported it. This takes several collections: the lease is freed
// first, its channel or context some collections later, and the report follows. On a busy machine each collection takes seconds. So noticed gives up
// only after both 100 collections and locktest.Patience.
func (l *leaky) noticed(t *testing.T) holdfast.LeaseLeaked {
	t.Helper()
	const enough = 100
	looks := time.NewTicker(50 * time.Millisecond) // constant collections would slow down the other tests
	defer looks.Stop()
	for collections, end := 0, time.Now().Add(locktest.Patience); len(l.leaks()) == 0; collections++ {
		require.True(t, collections < enough || time.Now().Before(end), "waiting for the leak to be noticed")
		runtime.GC()
		<-looks.C
	}
	require.Len(t, l.leaks(), 1)
	return l.leaks()[0]
}

// keeps asserts that no leak is reported although the collector runs and the runtime has checked twice.
func (l *leaky) keeps(t *testing.T) {
	t.Helper()
	looks := time.NewTicker(300 * time.Millisecond)
	defer looks.Stop()
	for range 12 {
		runtime.GC()
		<-looks.C
		require.Empty(t, l.leaks())
		require.True(t, l.Exists(t))
	}
}

// dropped calls acquire and returns its result. When acquire has returned, its frame no longer refers to the lease.
//
//go:noinline
func dropped[T any](acquire func() T) T { return acquire() }

// acquire is like locktest.Acquire, but does not let the test keep the lease.
func acquire(t *testing.T, lock *holdfast.Lock, options ...holdfast.AcquireOption) *holdfast.Lease {
	t.Helper()
	lease, err := lock.Acquire(context.Background(), options...)
	require.NoError(t, err)
	return lease
}

func TestLeak_DroppedLeaseIsReported(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		l := newLeaky(t, p)
		began := time.Now()
		id := dropped(func() string { return acquire(t, l.lock).ID() })
		acquired := time.Now()
		waiting := l.lock.AcquireAsync(t.Context())

		event := l.noticed(t)

		assert.Equal(t, holdfast.LeaseLeaked{Name: p.Name, Kind: holdfast.Kind(p.Kind.Name), ID: id, Since: event.Since}, event)
		assert.WithinRange(t, event.Since, began.Add(-time.Second), acquired.Add(time.Second))
		assert.Equal(t, p.Name, event.Lock())
		assert.Contains(t, l.logged(), "level=ERROR")
		lease, err := waiting.Lease()
		require.NoError(t, err, "it was released")
		locktest.Release(t, lease)
		runtime.GC()
		assert.Len(t, l.leaks(), 1)
	})
}

func TestLeak_FixedLeaseIsReportedOnly(t *testing.T) {
	t.Parallel()
	l := newLeaky(t, locktest.OwnPlaceOf(t, "lock"))
	dropped(func() string { return acquire(t, l.lock, holdfast.WithLease(time.Hour)).ID() })
	l.noticed(t)
	locktest.Stays(t, "the lease is held, and reported once", 2500*time.Millisecond, func() bool { return l.Exists(t) && len(l.leaks()) == 1 })
}

// A lease is not leaked while Do is running. It is also not leaked as long as somebody uses the lease, the channel that Done returned, or the context
// that Context returned.
func TestLeak_LeaseInUseIsNone(t *testing.T) {
	t.Parallel()
	use := map[string]func(t *testing.T, l *leaky){
		"lease": func(t *testing.T, l *leaky) {
			lease := acquire(t, l.lock)
			l.keeps(t)
			runtime.KeepAlive(lease)
		},
		"channel": func(t *testing.T, l *leaky) {
			done := dropped(func() <-chan struct{} { return acquire(t, l.lock).Done() })
			l.keeps(t)
			locktest.Open(t, "the end", done)
		},
		"context": func(t *testing.T, l *leaky) {
			ctx := dropped(func() context.Context {
				ctx, _ := acquire(t, l.lock).Context(context.Background()) //nolint:govet // that it is not cancelled is the point
				return ctx
			})
			l.keeps(t)
			assert.NoError(t, ctx.Err())
		},
		"context's channel": func(t *testing.T, l *leaky) {
			var cancel context.CancelFunc
			done := dropped(func() <-chan struct{} {
				ctx, stop := acquire(t, l.lock).Context(context.Background())
				cancel = stop
				return ctx.Done()
			})
			l.keeps(t)
			locktest.Open(t, "the end", done)
			cancel()
			cancel = nil
		},
		"derived context": func(t *testing.T, l *leaky) {
			ctx, cancel := context.WithCancel(dropped(func() context.Context {
				ctx, _ := acquire(t, l.lock).Context(context.Background()) //nolint:govet // as above
				return ctx
			}))
			defer cancel()
			l.keeps(t)
			assert.NoError(t, ctx.Err())
		},
		"member": func(t *testing.T, l *leaky) {
			member := dropped(func() *holdfast.Lease {
				lease, err := holdfast.Multi(l.lock, l.Another(t).Lock(l.rt)).Acquire(context.Background())
				require.NoError(t, err)
				return lease.Members()[1]
			})
			l.keeps(t)
			assert.True(t, member.Valid())
			runtime.KeepAlive(member)
		},
	}
	for what, use := range use {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := newLeaky(t, locktest.OwnPlaceOf(t, "lock"))
			use(t, l)
			l.noticed(t)
			locktest.Await(t, "the release", func() bool { return !l.Exists(t) })
		})
	}
	t.Run("Do", func(t *testing.T) {
		t.Parallel()
		l := newLeaky(t, locktest.OwnPlaceOf(t, "lock"))
		assert.NoError(t, l.lock.Do(t.Context(), func(context.Context) error { l.keeps(t); return nil }))
		runtime.GC()
		assert.Empty(t, l.leaks())
	})
}

// A caller that has kept only the channel or the context still learns of the loss: both end with the lease.
func TestLeak_WhoHasTheChannelIsToldOfTheLoss(t *testing.T) {
	t.Parallel()
	l := newLeaky(t, locktest.OwnPlaceOf(t, "lock"))
	told := make(chan struct{})
	var inContext context.Context
	done := dropped(func() <-chan struct{} {
		lease := acquire(t, l.lock)
		inContext, _ = lease.Context(context.Background()) //nolint:govet // that it is not cancelled is the point
		return lease.Done()
	})
	go func() { // only this goroutine has the channel
		<-done
		close(told)
	}()
	l.keeps(t)

	held, err := l.lock.ForceRelease(t.Context())
	require.NoError(t, err)
	require.True(t, held)

	locktest.Closed(t, "the channel", told)
	locktest.Closed(t, "the context", inContext.Done())
	require.ErrorIs(t, context.Cause(inContext), holdfast.ErrLeaseLost)
	runtime.GC()
	assert.Empty(t, l.leaks(), "it was lost")
}

func TestLeak_MultiLockIsReportedOnce(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		l := newLeaky(t, p)
		other := l.Another(t).Lock(l.rt)
		m := holdfast.Multi(l.lock, other)
		id := dropped(func() string {
			lease, err := m.Acquire(context.Background())
			require.NoError(t, err)
			return lease.ID()
		})
		event := l.noticed(t)
		assert.Equal(t, p.Name+","+other.Name(), event.Name)
		assert.Equal(t, holdfast.Kind(p.Kind.Name), event.Kind)
		assert.Equal(t, id, event.ID)
		lease, err := m.Acquire(t.Context())
		require.NoError(t, err, "both are released")
		locktest.Release(t, lease)
		assert.Len(t, l.leaks(), 1)
	})
}

func TestLeak_PendingThatNobodyTook(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		l := newLeaky(t, p)
		granted := dropped(func() <-chan struct{} { return l.lock.AcquireAsync(context.Background()).Done() })
		locktest.Closed(t, "the grant", granted)
		l.noticed(t)
		locktest.Release(t, locktest.Acquire(t, l.lock))
	})
}

func TestLeak_ThatIsNone(t *testing.T) {
	t.Parallel()
	p := locktest.OwnPlaceOf(t, "lock")
	l := newLeaky(t, p)
	dropped(func() bool { // released in various ways
		for range 100 {
			locktest.Release(t, locktest.Acquire(t, l.lock))
		}
		pending := l.lock.AcquireAsync(context.Background())
		locktest.Closed(t, "the grant", pending.Done())
		pending.Cancel()
		lease, err := holdfast.Multi(l.lock, p.Another(t).Lock(l.rt)).Acquire(context.Background())
		require.NoError(t, err)
		members := lease.Members()
		require.NoError(t, members[0].Release(context.Background()))
		return assert.ErrorIs(t, lease.Err(), holdfast.ErrNotHeld, "one of them is not enough")
	})
	dropped(func() bool { // lost
		lease := acquire(t, l.lock)
		_, err := l.lock.ForceRelease(context.Background())
		return assert.NoError(t, err) && assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
	})
	kept := acquire(t, l.lock)
	l.keeps(t)
	locktest.Release(t, kept)
}

// Released leases do not hide that another one was dropped.
func TestLeak_BesideReleasedLeases(t *testing.T) {
	t.Parallel()
	l := newLeaky(t, locktest.OwnPlaceOf(t, "lock"))
	var released []*holdfast.Lease
	for range 100 {
		lease := acquire(t, l.lock)
		locktest.Release(t, lease)
		released = append(released, lease)
	}
	dropped(func() string { return acquire(t, l.lock).ID() })
	l.noticed(t)
	runtime.KeepAlive(released)
}

// In a bubble of testing/synctest the collector's goroutine must not touch any object of the runtime.
func TestLeak_InABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var events locktest.Recorder
		rt := locktest.NewBubble(t).Runtime(t, &locktest.Pipes{}, holdfast.Options{OnEvent: events.Record})
		dropped(func() string { return acquire(t, rt.Lock("orders")).ID() })
		for i := 0; len(locktest.Recorded[holdfast.LeaseLeaked](&events)) == 0; i++ {
			require.Less(t, i, 1_000, "looks")
			runtime.GC()
			<-time.After(time.Second)
		}
		locktest.Release(t, locktest.Acquire(t, rt.Lock("orders")))
		assert.Len(t, locktest.Recorded[holdfast.LeaseLeaked](&events), 1)
	})
}
