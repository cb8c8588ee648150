package faults_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// TestFault_DialsThatTimeOut makes every dial fail with a timeout error. In one case the error comes at once, as a circuit breaker or a tunnel may
// return it. In the other case it comes after a few milliseconds, as with a short DialTimeout. The runtime pauses between its attempts to connect
// for messages. When dials work again, it is connected again.
func TestFault_DialsThatTimeOut(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"at once": 0, "after 5 ms": 5 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			showDialTimeouts(t, after)
		})
	}
}

func showDialTimeouts(t *testing.T, after time.Duration) {
	p := locktest.OwnPlaceOf(t, "lock")
	var away atomic.Bool
	var dials atomic.Int64
	client := locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if away.Load() {
			dials.Add(1)
			<-time.After(after)
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ETIMEDOUT}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	var events locktest.Recorder
	holder, waiter := p.Runtime(t, holdfast.Options{}), locktest.NewRuntime(t, client, holdfast.Options{OnEvent: events.Record})
	lease := locktest.Acquire(t, p.Lock(holder))
	pending := p.Lock(waiter).AcquireAsync(t.Context())
	p.WaitForWaiter(t, waiter)

	away.Store(true)
	require.Positive(t, p.Redis.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Val())
	<-time.After(2 * time.Second)
	t.Logf("%d dials in 2 s", dials.Load())
	assert.Positive(t, dials.Load())
	assert.Less(t, dials.Load(), int64(100))

	away.Store(false)
	locktest.Await(t, "the connection to be back", func() bool { return len(locktest.Recorded[holdfast.Reconnected](&events)) > 0 })
	locktest.Release(t, lease)
	next, err := pending.Lease()
	require.NoError(t, err)
	locktest.Release(t, next)
}
