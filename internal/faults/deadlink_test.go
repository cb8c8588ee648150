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
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Every connection dies without a word, as when a firewall forgets them, and new ones work. The runtime finds to the new ones in
// time whatever the client's timeouts are, and a waiter gets its lock.
func TestFault_DeadConnections(t *testing.T) {
	t.Parallel()
	for client := range clients {
		if !allClients() && client != "all at once" && client != "no timeouts" && client != "default" {
			continue
		}
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			showDeadConnections(t, client)
		})
	}
}

func showDeadConnections(t *testing.T, name string) {
	places := locktest.OnOneServer(t)
	p := places[0]
	proxy := faultproxy.New(t, p.Addr)
	t.Cleanup(proxy.Heal)
	var route atomic.Value // where new connections go
	route.Store(proxy.Addr())
	options := &redis.Options{Addr: p.Addr, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, route.Load().(string))
	}}
	clients[name](options)
	rt, other := locktest.NewRuntime(t, locktest.ClientWith(t, options), holdfast.Options{}), p.Runtime(t, holdfast.Options{})

	var kept, taken []*holdfast.Lease
	var waiting []*holdfast.Pending
	for _, p := range places {
		kept = append(kept, locktest.Acquire(t, p.Another(t).Lock(rt)))
		taken = append(taken, locktest.Acquire(t, p.Lock(other)))
		waiting = append(waiting, p.Lock(rt).AcquireAsync(t.Context()))
		p.WaitForWaiting(t, rt, 1)
	}
	proxy.Blackhole(true)
	route.Store(p.Addr)

	start := time.Now()
	for i := range places {
		locktest.Release(t, taken[i])
	}
	for i := range places {
		lease, err := waiting[i].Lease()
		if !assert.NoError(t, err, "patience lasts for 10 s") {
			return
		}
		locktest.Release(t, lease)
	}
	t.Logf("%s: %v until the waiters have had their locks", name, time.Since(start).Round(time.Millisecond))
	for _, lease := range kept {
		assert.True(t, lease.Valid())
		locktest.Release(t, lease)
	}
	locktest.Await(t, "the last dead connection to be given up", func() bool { return rt.Check(t.Context()) == nil })
}
