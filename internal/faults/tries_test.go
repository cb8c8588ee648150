package faults_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Of many tries at the same time, each is refused only if nothing is left for it.
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

// tryAtOnce calls try in 64 goroutines at once, and returns how many of them succeeded.
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
