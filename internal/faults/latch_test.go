package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Every count-down counts once, and at zero all waiters return, no matter what happens to the connections.
func TestFault_LatchCountsOnce(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	times := locktest.Scaled(20_000, 400)
	var proxies []*faultproxy.Proxy
	var latches []*holdfast.CountDownLatch
	for range 2 {
		rt, proxy := p.Proxied(t, holdfast.Options{Lease: 6 * time.Second}) // after 2 s a call's outcome is unknown, and waiters give up
		proxies, latches = append(proxies, proxy), append(latches, rt.CountDownLatch(p.Name))
	}
	set, err := latches[0].TrySetCount(t.Context(), times+1)
	require.NoError(t, err)
	require.True(t, set)
	var returned atomic.Int64
	var waiters, counters sync.WaitGroup
	for i := range 16 {
		waiters.Go(func() {
			for latches[i%2].Wait(context.Background()) != nil { // Wait has given up
			}
			returned.Add(1)
		})
	}
	var left atomic.Int64
	left.Store(int64(times))
	for i := range 16 {
		counters.Go(func() {
			for left.Add(-1) >= 0 {
				assert.NoError(t, latches[i%2].CountDown(context.Background()))
				<-time.After(rand.N(10 * time.Millisecond))
			}
		})
	}
	troubles := trouble(proxies, &counters)
	for _, proxy := range proxies {
		proxy.Heal()
	}
	count, err := p.Redis.Get(t.Context(), p.Name).Int()
	require.NoError(t, err)
	t.Logf("%d count-downs over %d troubles, %d is left", times, troubles, count)
	assert.Equal(t, 1, count)
	assert.Zero(t, returned.Load(), "nobody returned too early")

	proxies[0].Cut() // half of the waiters have no connection when the message is published
	require.NoError(t, latches[1].CountDown(t.Context()))
	waiters.Wait()
}

// trouble disturbs connections in various ways until the group is done.
func trouble(proxies []*faultproxy.Proxy, group *sync.WaitGroup) (troubles int) {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return troubles
		case <-time.After(rand.N(100 * time.Millisecond)):
		}
		troubles++
		proxy := proxies[rand.IntN(len(proxies))]
		switch rand.IntN(4) {
		case 0:
			proxy.DropReplies(1+rand.IntN(3), faultproxy.Containing("evalsha"))
		case 1:
			proxy.Cut()
		case 2:
			proxy.SwallowReplies(true)
			<-time.After(rand.N(100 * time.Millisecond))
			proxy.SwallowReplies(false)
		case 3:
			proxy.Blackhole(true)
			<-time.After(rand.N(100 * time.Millisecond))
			proxy.Blackhole(false)
		}
	}
}

// A latch reaches zero while a process is cut off: it gets no messages and cannot ask Redis. The process notices when it is connected again.
func TestFault_LatchZeroDuringAnOutage(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	rt, proxy := p.Proxied(t, holdfast.Options{})
	l := rt.CountDownLatch(p.Name)
	for range locktest.Scaled(20, 3) {
		require.NoError(t, p.Redis.Set(t.Context(), p.Name, 1, 0).Err())
		result := make(chan error, 1)
		go func() { result <- l.Wait(t.Context()) }()
		channel := "redisson_countdownlatch__channel__{" + p.Name + "}"
		locktest.Await(t, "a subscription", func() bool { return p.Redis.PubSubNumSub(t.Context(), channel).Val()[channel] > 0 })
		proxy.Refuse(true)
		proxy.Cut()
		require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
		require.NoError(t, p.Redis.Publish(t.Context(), channel, "0").Err())
		<-time.After(100 * time.Millisecond)
		proxy.Refuse(false)
		select {
		case err := <-result:
			require.NoError(t, err)
		case <-time.After(locktest.Patience):
			require.Fail(t, "it waits for ever")
		}
	}
}
