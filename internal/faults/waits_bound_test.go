package faults_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// The operating system may suspend a caller at any line for longer than the caller wants to wait. So a wait may end before its request has been
// sent. Such a wait ends like any other, and is not granted the lock later. The test suspends the caller where it looks up the registry's shard for
// the lock.
func TestFault_WaitEndsBeforeItsRequestIsSent(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, lock *holdfast.Lock) (*holdfast.Lease, error){
		"WithWait": func(t *testing.T, lock *holdfast.Lock) (*holdfast.Lease, error) {
			return lock.Acquire(t.Context(), holdfast.WithWait(1))
		},
		"AcquireAsync, WithWait": func(t *testing.T, lock *holdfast.Lock) (*holdfast.Lease, error) {
			return lock.AcquireAsync(t.Context(), holdfast.WithWait(1)).Lease()
		},
		"AcquireAsync, context": func(t *testing.T, lock *holdfast.Lock) (*holdfast.Lease, error) {
			return lock.AcquireAsync(newHastyContext(t)).Lease()
		},
	}
	for _, kind := range locktest.Kinds {
		for way, acquire := range ways {
			t.Run(kind.Name+"/"+way, func(t *testing.T) {
				t.Parallel()
				p := locktest.Somewhere(t)
				p.Kind = kind
				var suspends atomic.Bool
				rt := p.Runtime(t, holdfast.Options{System: locktest.SystemWith(t, &actors.Seams{Shard: func(string) uint64 {
					if suspends.CompareAndSwap(true, false) {
						<-time.After(20 * time.Millisecond)
					}
					return 0
				}})})
				holder := locktest.Acquire(t, p.Lock(rt))
				ended := make(chan error, 1)
				suspends.Store(true)
				go func() {
					_, err := acquire(t, p.Lock(rt))
					ended <- err
				}()
				select {
				case err := <-ended:
					assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
				case <-time.After(locktest.Patience):
					require.Fail(t, "the wait has no bound")
				}
				locktest.Release(t, holder)
				locktest.Await(t, "the lock to be free", func() bool { return !p.Exists(t) })
			})
		}
	}
}

// The goroutine that cancels is suspended before its cancel reaches the actor, and meanwhile the lock is granted. Either the caller gets the lease,
// or the lease is released.
func TestFault_GrantedWhileTheCancelIsOnItsWay(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, lock *holdfast.Lock) (cancel func(), outcome func() (*holdfast.Lease, error)){
		"Pending.Cancel": func(t *testing.T, lock *holdfast.Lock) (func(), func() (*holdfast.Lease, error)) {
			pending := lock.AcquireAsync(t.Context())
			return pending.Cancel, pending.Lease
		},
		"context": func(t *testing.T, lock *holdfast.Lock) (func(), func() (*holdfast.Lease, error)) {
			ctx, cancel := context.WithCancel(t.Context())
			var lease *holdfast.Lease
			var err error
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				lease, err = lock.Acquire(ctx)
			}()
			return cancel, func() (*holdfast.Lease, error) { locktest.Closed(t, "the end", ended); return lease, err }
		},
	}
	for _, kind := range locktest.Kinds {
		for way, begin := range ways {
			t.Run(kind.Name+"/"+way, func(t *testing.T) {
				t.Parallel()
				showGrantBeforeCancel(t, kind, begin)
			})
		}
	}
}

func showGrantBeforeCancel(
	t *testing.T, kind locktest.Kind, begin func(*testing.T, *holdfast.Lock) (cancel func(), outcome func() (*holdfast.Lease, error)),
) {
	p := locktest.Somewhere(t)
	p.Kind = kind
	var suspends atomic.Bool
	cancelling, goOn := make(chan struct{}), make(chan struct{})
	rt := p.Runtime(t, holdfast.Options{System: locktest.SystemWith(t, &actors.Seams{Shard: func(string) uint64 {
		if suspends.CompareAndSwap(true, false) {
			close(cancelling)
			<-goOn
		}
		return 0
	}})})
	holder := locktest.Acquire(t, p.Lock(rt))
	cancel, outcome := begin(t, p.Lock(rt))
	p.WaitForWaiting(t, rt, 1)
	suspends.Store(true)
	go cancel()
	locktest.Closed(t, "the cancel to be on its way", cancelling)
	locktest.Release(t, holder)
	locktest.Await(t, "the grant", func() bool {
		state, err := p.Lock(rt).Inspect(t.Context())
		return err == nil && state.Waiting == 0
	})
	close(goOn)
	if lease, err := outcome(); err == nil {
		assert.True(t, lease.Valid())
		locktest.Release(t, lease)
	} else {
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorIs(t, err, context.Canceled)
	}
	locktest.Await(t, "the lock to be free", func() bool { return !p.Exists(t) })
}

// hastyContext is a context that ends right after the first call of Err, which still returns nil.
type hastyContext struct {
	context.Context
	cancel context.CancelFunc
}

func newHastyContext(t *testing.T) hastyContext {
	ctx, cancel := context.WithCancel(t.Context())
	return hastyContext{ctx, cancel}
}

func (c hastyContext) Err() error {
	defer c.cancel()
	return c.Context.Err()
}
