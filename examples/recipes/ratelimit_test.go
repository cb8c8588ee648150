package recipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// allow reports whether one more call may be made. It acquires a permit for each call and does not release the permit, which becomes free when its
// lease ends. So in each window, all processes together make at most as many calls as there are permits. If a process crashes, its permits become
// free only ten seconds after their leases end. If a process closes its runtime, its permits become free at once, so more calls are possible then.
//
// Each lease ends without a release, which is logged as a loss. To filter these log records, give the runtime a Logger of its own.
func allow(ctx context.Context, calls *holdfast.PermitSemaphore, window time.Duration) (bool, error) {
	lease, err := calls.TryAcquire(ctx, holdfast.WithLease(window+window/50)) // the runtime gives a permit back a little before its lease ends
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	go func() { <-lease.Done() }() // keeps a reference to the lease; otherwise the runtime would report the lease as leaked
	return true, nil
}

// Two processes together may make three calls a minute.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := holdfasttest.New(t)
		a, b := redis.Runtime().PermitSemaphore("sms"), redis.Runtime().PermitSemaphore("sms")
		_, err := a.TrySetPermits(t.Context(), 3)
		require.NoError(t, err)
		five := func() (answers string) {
			for _, calls := range []*holdfast.PermitSemaphore{a, b, a, b, a} {
				ok, err := allow(t.Context(), calls, time.Minute)
				require.NoError(t, err)
				answers += fmt.Sprint(ok, " ")
			}
			return answers
		}

		assert.Equal(t, "true true true false false ", five())
		<-time.After(59 * time.Second)
		assert.Equal(t, "false false false false false ", five())
		<-time.After(3 * time.Second)
		assert.Equal(t, "true true true false false ", five())
		<-time.After(2 * time.Minute) // a test must not leave leases behind
	})
}
