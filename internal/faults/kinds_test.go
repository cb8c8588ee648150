package faults_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// wokenIn bounds the time from a release until a waiter has the lock.
const wokenIn = 100 * time.Millisecond

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
func pairs(t *testing.T, show func(t *testing.T, holder, waiter locktest.Kind, first, other *holdfast.Runtime)) {
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
						first := server.Runtime(t, &locktest.Pipes{}, holdfast.Options{})
						other := first
						if processes > 1 {
							other = server.Runtime(t, &locktest.Pipes{}, holdfast.Options{})
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
