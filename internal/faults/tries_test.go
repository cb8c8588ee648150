package faults_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// When many goroutines try at the same time, a try is refused only if the other tries have taken everything.
func TestFault_ManyTriesAtOnce(t *testing.T) {
	t.Parallel()
	for name, permits := range map[string]int{"enough permits": 1000, "as many permits": 64, "few permits": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := locktest.Somewhere(t)
			s := p.Runtime(t, holdfast.Options{}).PermitSemaphore(p.Name)
			_, err := s.TrySetPermits(t.Context(), permits)
			require.NoError(t, err)
			assert.EqualValues(t, min(permits, 64), tryAtOnce(t, func() (*holdfast.Lease, error) { return s.TryAcquire(t.Context()) }))
			available, err := s.Available(t.Context())
			require.NoError(t, err)
			assert.Equal(t, permits-min(permits, 64), available)
		})
	}
	t.Run("readers", func(t *testing.T) {
		t.Parallel()
		p := locktest.Somewhere(t)
		lock := p.Runtime(t, holdfast.Options{}).RWLock(p.Name).Read()
		assert.EqualValues(t, 64, tryAtOnce(t, func() (*holdfast.Lease, error) {
			return lock.TryAcquire(t.Context(), holdfast.WithLease(time.Minute))
		}))
	})
}

// After a caller has given up, its acquire may still be in flight. A try for the other half of the read/write lock waits until the runtime has
// undone that acquire. Then the lock has no holder and no waiter, so the try asks Redis.
func TestFault_TryAfterAnAbandonedAcquire(t *testing.T) {
	t.Parallel()
	for name, halves := range map[string]func(l *holdfast.RWLock) (first, second *holdfast.Lock){
		"a reader after a writer": func(l *holdfast.RWLock) (first, second *holdfast.Lock) { return l.Write(), l.Read() },
		"a writer after a reader": func(l *holdfast.RWLock) (first, second *holdfast.Lock) { return l.Read(), l.Write() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := locktest.Somewhere(t)
			rt, proxy := p.Proxied(t, holdfast.Options{})
			first, second := halves(rt.RWLock(p.Name))
			locktest.Release(t, locktest.Acquire(t, first)) // connects
			proxy.Delay(faultproxy.ToClient, 200*time.Millisecond)
			_, err := first.Acquire(t.Context(), holdfast.WithWait(20*time.Millisecond))
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
			lease, err := second.TryAcquire(t.Context())
			require.NoError(t, err)
			locktest.Release(t, lease)
		})
	}
}

// tryAtOnce calls the function `try` in 64 goroutines at once, and returns how many of the calls acquired the lock.
func tryAtOnce(t *testing.T, try func() (*holdfast.Lease, error)) int64 {
	var granted atomic.Int64
	var group sync.WaitGroup
	begin := make(chan struct{})
	for range 64 {
		group.Go(func() {
			<-begin
			if _, err := try(); err == nil {
				granted.Add(1)
			} else {
				assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
			}
		})
	}
	close(begin)
	group.Wait()
	return granted.Load()
}
