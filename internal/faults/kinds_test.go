package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// wokenIn bounds the time from a release until a waiter has the lock.
const wokenIn = 100 * time.Millisecond

// turnsIn bounds the wait for a lock that another kind of lock passes on all the time.
const turnsIn = 200 * time.Millisecond

// spinMax is the longest pause of a spin lock's waiter, which listens to no messages.
const spinMax = 128 * time.Millisecond

// In TestFault_KindsWakeOneAnother, a waiter wants a lock that is held. The holder and the waiter use the same name, but each of them may use another
// kind of lock. They are in the same process or in two. The release wakes the waiter.
func TestFault_KindsWakeOneAnother(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, holder, waiter locktest.Kind, first, other *holdfast.Runtime) {
		for round := range 4 {
			held := locktest.Acquire(t, holder.Lock(first, "orders"))
			waiting := waiter.Lock(other, "orders").AcquireAsync(t.Context())
			<-time.After(1100*time.Millisecond + time.Duration(round)*170*time.Millisecond) // each round releases at another point between two polls
			assertWoken(t, waiter, held, waiting)
		}
	})
}

// In TestFault_NextInLineIsWokenByAnotherKind, two waiters queue for a fair lock. Meanwhile, the lock of that name is held, in most cases as a lock
// of another kind. The first waiter in the queue gives up. Then the release wakes the second waiter.
func TestFault_NextInLineIsWokenByAnotherKind(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, holder, waiter locktest.Kind, first, other *holdfast.Runtime) {
		if !waiter.Queued {
			return
		}
		held := locktest.Acquire(t, holder.Lock(first, "orders"))
		leaving := waiter.Lock(first, "orders").AcquireAsync(t.Context())
		<-time.After(300 * time.Millisecond)
		waiting := waiter.Lock(other, "orders").AcquireAsync(t.Context())
		<-time.After(300 * time.Millisecond)
		leaving.Cancel()
		<-time.After(200 * time.Millisecond)
		assertWoken(t, waiter, held, waiting)
	})
}

// pairs runs `show` in a bubble of testing/synctest for each pair of lock kinds that exclude each other, with one runtime and with two.
func pairs(t *testing.T, show func(t *testing.T, holder, waiter locktest.Kind, first, other *holdfast.Runtime), hooks ...redis.Hook) {
	for _, holder := range locktest.Kinds {
		for _, waiter := range locktest.Kinds {
			if holder.Mode != waiter.Mode {
				continue // ErrForeignKey
			}
			for _, processes := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s behind %s, %d processes", waiter.Name, holder.Name, processes), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						server := locktest.NewBubble(t)
						first := server.Runtime(t, &locktest.Pipes{}, holdfast.Options{}, hooks...)
						other := first
						if processes > 1 {
							other = server.Runtime(t, &locktest.Pipes{}, holdfast.Options{}, hooks...)
						}
						show(t, holder, waiter, first, other)
					})
				})
			}
		}
	}
}

// assertWoken releases the lock, and asserts that the waiter has it soon.
func assertWoken(t *testing.T, waiter locktest.Kind, held *holdfast.Lease, waiting *holdfast.Pending) {
	t.Helper()
	locktest.Release(t, held)
	released := time.Now()
	lease, err := waiting.Lease()
	require.NoError(t, err)
	bound := wokenIn
	if waiter.Deaf {
		bound += spinMax
	}
	assert.Less(t, time.Since(released), bound)
	require.NoError(t, lease.Release(context.Background()))
}

// In TestFault_KindsTakeTurns, two goroutines want a lock all the time. Another one, in the same process or in another one, wants the lock as another
// kind, again and again. It never waits for longer than a few turns.
func TestFault_KindsTakeTurns(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, holder, waiter locktest.Kind, first, other *holdfast.Runtime) {
		if holder.Name == waiter.Name || waiter.Deaf { // a waiter that polls may miss the moments in which the lock is free: see below
			return
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		all := wantAlways(ctx, holder.Lock(first, "orders"))
		longest := time.Duration(0)
		for range locktest.Scaled(20, 5) {
			asked := time.Now()
			err := holdBriefly(ctx, waiter.Lock(other, "orders"))
			longest = max(longest, time.Since(asked))
			if !assert.NoError(t, err) {
				break
			}
		}
		stop()
		all.Wait()
		assert.Less(t, longest, turnsIn)
	}, remote{})
}

// wantAlways starts two goroutines that want a lock all the time, until ctx ends.
func wantAlways(ctx context.Context, lock *holdfast.Lock) *sync.WaitGroup {
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for holdBriefly(ctx, lock) == nil {
			}
		})
	}
	return &all
}

func holdBriefly(ctx context.Context, lock *holdfast.Lock) error {
	return lock.Do(ctx, func(context.Context) error {
		<-time.After(time.Millisecond)
		return nil
	})
}

// In TestFault_PollersGetTheirTurn, two goroutines want a lock all the time. A client of another process or of the same one wants the lock as another
// kind, and only polls. No message tells it that the lock is free. So the two must leave the lock free for a moment, about once a second.
func TestFault_PollersGetTheirTurn(t *testing.T) {
	t.Parallel()
	const every, polledIn = 10 * time.Millisecond, 3 * time.Second
	pairs(t, func(t *testing.T, holder, waiter locktest.Kind, first, other *holdfast.Runtime) {
		if holder.Name == waiter.Name || waiter.Queued { // a try for a fair lock does not overtake the queue
			return
		}
		all, stop := context.WithCancel(t.Context())
		defer stop()
		busy := wantAlways(all, holder.Lock(first, "orders"))
		for range locktest.Scaled(3, 1) {
			ctx, cancel := context.WithTimeout(t.Context(), polledIn)
			lease, err := poll(ctx, waiter, waiter.Lock(other, "orders"), every)
			cancel()
			if assert.NoError(t, err) {
				locktest.Release(t, lease)
			}
			<-time.After(every)
		}
		stop()
		busy.Wait()
	}, remote{})
}

// poll acquires a lock without the help of messages.
func poll(ctx context.Context, kind locktest.Kind, lock *holdfast.Lock, every time.Duration) (*holdfast.Lease, error) {
	if kind.Deaf {
		return lock.Acquire(ctx, holdfast.WithBackoff(holdfast.Backoff{Initial: every, Max: every}))
	}
	for {
		<-time.After(every)
		lease, err := lock.TryAcquire(ctx)
		if !errors.Is(err, holdfast.ErrNotAcquired) || ctx.Err() != nil {
			return lease, err
		}
	}
}

// remote is a client's hook. Each of the client's calls takes as long as on a network, so that replies do not always come before messages.
type remote struct{}

func (remote) DialHook(next redis.DialHook) redis.DialHook { return next }

func (remote) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (remote) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer func() { <-time.After(100 * time.Microsecond) }()
		<-time.After(100 * time.Microsecond)
		return next(ctx, cmds)
	}
}
