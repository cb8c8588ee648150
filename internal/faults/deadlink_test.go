package faults_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Every connection dies silently, as when a firewall forgets it, and only new connections work. Whatever the client's timeouts are, the
// runtime moves to new connections in time, and a waiter gets its lock.
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
	client, dead := newDyingClient(t, p, name)
	rt, other := locktest.NewRuntime(t, client, holdfast.Options{}), p.Runtime(t, holdfast.Options{})

	var kept, taken []*holdfast.Lease
	var waiting []*holdfast.Pending
	for _, p := range places {
		kept = append(kept, locktest.Acquire(t, p.Another(t).Lock(rt)))
		taken = append(taken, locktest.Acquire(t, p.Lock(other)))
		waiting = append(waiting, p.Lock(rt).AcquireAsync(t.Context()))
		p.WaitForWaiting(t, rt, 1)
	}
	dead.die()
	dead.heal()

	start := time.Now()
	for i := range places {
		locktest.Release(t, taken[i])
	}
	for i := range places {
		lease, err := waiting[i].Lease()
		if !assert.NoError(t, err, "an acquire gives up only after 10 s without an answer") {
			return
		}
		locktest.Release(t, lease)
	}
	t.Logf("%s: %v until all waiters were served", name, time.Since(start).Round(time.Millisecond))
	for _, lease := range kept {
		assert.True(t, lease.Valid())
		locktest.Release(t, lease)
	}
	locktest.Await(t, "the last dead connection to be given up", func() bool { return rt.Check(t.Context()) == nil })
}

// All connections die silently, and the lease is short. New connections are silent, too. They work again only when the number of hanging calls has
// reached the runtime's limit. The runtime does not wait for the client's ReadTimeout: it stops waiting for a call's answer earlier than that. So
// releases and acquires are executed soon after new connections work again.
func TestFault_DeadConnectionsAndAShortLease(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"default", "no timeouts", "a minute"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			showDeadForAWhile(t, name)
		})
	}
}

func showDeadForAWhile(t *testing.T, name string) {
	const lease = time.Second
	places := locktest.OnOneServer(t)
	client, dead := newDyingClient(t, places[0], name)
	rt := locktest.NewRuntime(t, client, holdfast.Options{Lease: lease})
	var held []*holdfast.Lease
	for _, p := range places {
		held = append(held, locktest.Acquire(t, p.Another(t).Lock(rt), holdfast.WithLease(time.Minute)))
	}
	ctx, stop := context.WithCancel(t.Context())
	var users sync.WaitGroup
	defer users.Wait()
	defer stop()
	for _, p := range places {
		users.Go(func() {
			for lock := p.Another(t).Lock(rt); ctx.Err() == nil; {
				_ = lock.Do(ctx, func(context.Context) error { return nil })
			}
		})
	}
	dead.die()
	<-time.After(probes * lease / 3) // long enough for all probes to hang, one after the other
	stalls := locktest.WatchStalls(t, places[0])
	dead.heal()

	start := time.Now()
	var calls sync.WaitGroup
	for i, p := range places {
		calls.Go(func() {
			if err := held[i].Release(t.Context()); err != nil {
				assert.Greater(t, stalls.Worst(), lease/3, err)
			}
		})
		calls.Go(func() {
			locktest.Await(t, "an acquire", func() bool {
				return p.Another(t).Lock(rt).Do(t.Context(), func(context.Context) error { return nil }) == nil
			})
		})
	}
	calls.Wait()
	took := time.Since(start)
	t.Logf("%v until all were served", took.Round(time.Millisecond))
	assert.Less(t, took, lease+stalls.Slack())
}

// dying is a link whose connections can die silently.
type dying struct {
	proxy *faultproxy.Proxy
	addr  string
	route atomic.Value // where new connections go
}

// newDyingClient returns a client with the options clients[name], and the link that the client uses. The connections of the link can be made to die
// silently.
func newDyingClient(t *testing.T, p *locktest.Place, name string) (*redis.Client, *dying) {
	d := &dying{proxy: faultproxy.New(t, p.Addr), addr: p.Addr}
	t.Cleanup(d.proxy.Heal)
	d.route.Store(d.proxy.Addr())
	options := &redis.Options{Addr: p.Addr, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, d.route.Load().(string))
	}}
	clients[name](options)
	return locktest.ClientWith(t, options), d
}

// die silences all connections through the proxy, including those that are made later.
func (d *dying) die() { d.proxy.Blackhole(true) }

// heal lets new connections live.
func (d *dying) heal() { d.route.Store(d.addr) }
