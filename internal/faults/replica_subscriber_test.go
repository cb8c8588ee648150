package faults_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// In TestFault_SubscriberAtAReplica, sixteen goroutines of a process contend with a client that subscribes at a replica, as Redisson does with the
// subscriptionMode SLAVE. The master does not count this client as a subscriber. The client still gets the lock, because the process leaves the
// lock free now and then, in gaps, for clients that are not counted.
func TestFault_SubscriberAtAReplica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica := redistest.Start(t, "--replicaof", host, port)
	locktest.Await(t, "the replica", func() bool {
		return strings.Contains(replica.Client(t).Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	name := redistest.Name(t)
	lock := locktest.NewRuntime(t, master.Client(t), holdfast.Options{}).Lock(name)
	messages := replica.Client(t).Subscribe(t.Context(), scripts.LockChannel(name))
	_, err = messages.Receive(t.Context())
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	var served atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() { serve(ctx, lock, time.Millisecond, &served) })
	}
	defer group.Wait()
	defer stop()
	peer := redissonpeer.New(master.Client(t), redissonpeer.Config{})
	defer peer.Close()
	theirs := peer.RLock(name, 1)
	var waits []time.Duration
	for range locktest.Scaled(5, 2) {
		for begin := time.Now(); ; {
			_, err := messages.ReceiveMessage(t.Context())
			require.NoError(t, err)
			got, err := theirs.TryLock(t.Context(), time.Minute)
			require.NoError(t, err)
			if got {
				waits = append(waits, time.Since(begin))
				require.NoError(t, theirs.Unlock(t.Context()))
				break
			}
			require.Less(t, time.Since(begin), locktest.Patience)
		}
	}
	t.Logf("the client waited %v while others had %d turns", waits, served.Load())
	assert.NotZero(t, served.Load())
}
