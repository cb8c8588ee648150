package faults_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// In TestFault_TokensOverAReplicaWithASlowClock, the master is replaced by a server that has lost the counter of tokens. The clock of this server is
// behind. Runtimes that used the lock on the old master still get tokens that are larger than all tokens that any runtime got before.
func TestFault_TokensOverAReplicaWithASlowClock(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica, clock := redistest.StartWithClock(t)
	clock.Set(-3 * time.Second)
	var present atomic.Value
	present.Store(master.Addr())
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, present.Load().(string))
	}
	name := redistest.Name(t)
	var runtimes []*holdfast.Runtime
	for range 2 {
		client := locktest.ClientWith(t, &redis.Options{Addr: master.Addr(), Dialer: dial})
		runtimes = append(runtimes, locktest.NewRuntime(t, client, holdfast.Options{}))
	}
	last, slowest := int64(0), time.Duration(0)
	take := func(what string) {
		for i, rt := range runtimes {
			began := time.Now()
			lease := locktest.Acquire(t, rt.FencedLock(name))
			slowest = max(slowest, time.Since(began))
			assert.Greater(t, lease.Token(), last, "%s, runtime %d", what, i)
			last = lease.Token()
			locktest.Release(t, lease)
		}
	}
	take("the master")
	present.Store(replica.Addr())
	master.Kill()
	killed := time.Now()
	locktest.Await(t, "a failover that takes longer than an exchange, as the estimates of the master's clock need", func() bool { return time.Since(killed) > slowest })
	take("the server after it")
	take("the server after it, again")
}
