package kinds_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
)

// countSide is one side's semaphore and latch: ours, or those of a client that does only what Redisson does.
type countSide struct {
	semaphore, latch string // names
	do               func(operation string, n int) any
}

func ourSide(t *testing.T, rt *holdfast.Runtime, name string) countSide {
	s, l, ctx := rt.Semaphore(name), rt.CountDownLatch(name+"-latch"), t.Context()
	return countSide{name, name + "-latch", func(operation string, n int) any {
		switch operation {
		case "set":
			return answer(s.TrySetPermits(ctx, n))
		case "acquire":
			return answer("", s.Acquire(ctx, n))
		case "try":
			return answer("", s.TryAcquire(ctx, n)) == ""
		case "release":
			return answer("", s.Release(ctx, n))
		case "add":
			return answer("", s.AddPermits(ctx, n))
		case "drain":
			return answer(s.Drain(ctx))
		case "available":
			return answer(s.Available(ctx))
		case "delete":
			return answer(s.Delete(ctx))
		case "set count":
			return answer(l.TrySetCount(ctx, n))
		case "count down":
			return answer("", l.CountDown(ctx))
		case "count":
			return answer(l.Count(ctx))
		case "wait":
			return answer("", l.Wait(ctx))
		}
		return answer(l.Delete(ctx))
	}}
}

func theirSide(t *testing.T, peer *redissonpeer.Peer, name string) countSide {
	s, l, ctx := peer.Semaphore(name), peer.Latch(name+"-latch"), t.Context()
	return countSide{name, name + "-latch", func(operation string, n int) any {
		switch operation {
		case "set":
			return answer(s.TrySetPermits(ctx, n))
		case "acquire":
			return answer("", s.Acquire(ctx, n))
		case "try":
			return answer(s.TryAcquire(ctx, n))
		case "release":
			return answer("", s.Release(ctx, n))
		case "add":
			return answer("", s.AddPermits(ctx, n))
		case "drain":
			return answer(whole(s.DrainPermits(ctx)))
		case "available":
			return answer(whole(s.AvailablePermits(ctx)))
		case "delete":
			return answer(s.Delete(ctx))
		case "set count":
			return answer(l.TrySetCount(ctx, n))
		case "count down":
			return answer("", l.CountDown(ctx))
		case "count":
			return answer(whole(l.Count(ctx)))
		case "wait":
			return answer("", l.Await(ctx))
		}
		return answer(l.Delete(ctx))
	}}
}

func whole(n int64, err error) (int, error) { return int(n), err }

func answer(value any, err error) any {
	if err != nil {
		return err.Error()
	}
	return value
}

// After every operation, our semaphore or latch has the same key and TTL as Redisson's, and has sent the same messages and returned the same answer.
// All our other keys begin with our prefix, and expire.
func TestWire_CountsLookLikeRedissons(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	peer := locktest.NewPeerWith(t, p, redissonpeer.Config{})
	sides := []countSide{ourSide(t, p.Runtime(t, holdfast.Options{}), "ours"), theirSide(t, peer, "theirs")}
	pubsub := p.Redis.PSubscribe(t.Context(), "*")
	t.Cleanup(func() { _ = pubsub.Close() })
	_, err := pubsub.Receive(t.Context())
	require.NoError(t, err)
	for i, step := range []struct {
		operation string
		n         int
	}{
		{"available", 0}, {"try", 1}, {"drain", 0}, {"delete", 0}, {"delete", 0}, {"release", 2}, {"delete", 0},
		{"set", 5}, {"set", 6}, {"acquire", 2}, {"try", 3}, {"try", 1}, {"release", 3}, {"add", 2}, {"add", -4}, {"available", 0},
		{"release", 1}, {"drain", 0}, {"available", 0}, {"add", 3}, {"drain", 0}, {"delete", 0}, {"set", 0}, {"release", 1}, {"acquire", 1},
		{"count", 0}, {"wait", 0}, {"count down", 0}, {"set count", 2}, {"set count", 3}, {"count", 0}, {"count down", 0}, {"count down", 0},
		{"count", 0}, {"count down", 0}, {"set count", 1}, {"delete latch", 0}, {"delete latch", 0}, {"set count", 0}, {"wait", 0}, {"count down", 0},
	} {
		var seen []string
		for _, side := range sides {
			answer := side.do(step.operation, step.n)
			parts := append(keysOf(t, p.Redis, side), messagesOf(t, p.Redis, pubsub, side)...)
			seen = append(seen, fmt.Sprint(answer, " ", strings.Join(parts, " ")))
		}
		assert.Equal(t, seen[1], seen[0], "step %d: %s %d", i, step.operation, step.n)
	}
}

// keysOf describes the keys of a side.
func keysOf(t *testing.T, client redis.UniversalClient, side countSide) (all []string) {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*"+side.semaphore+"*").Result()
	require.NoError(t, err)
	for _, name := range []string{side.semaphore, side.latch} {
		value, err := client.Get(t.Context(), name).Result()
		if err != nil {
			value = "no key"
		}
		all = append(all, value, client.PTTL(t.Context(), name).Val().String())
	}
	for _, key := range keys {
		if key != side.semaphore && key != side.latch {
			assert.Regexp(t, `^holdfast_attempt:\{`, key)
			assert.NotEqual(t, time.Duration(-1), client.PTTL(t.Context(), key).Val(), "%s expires, unless it is gone already", key)
		}
	}
	return all
}

// messagesOf returns the messages since the last call, with their channels.
func messagesOf(t *testing.T, client redis.UniversalClient, pubsub *redis.PubSub, side countSide) (all []string) {
	t.Helper()
	require.NoError(t, client.Publish(t.Context(), "end", "end").Err())
	for {
		message, err := pubsub.ReceiveMessage(t.Context())
		require.NoError(t, err)
		if message.Channel == "end" {
			return all
		}
		all = append(all, strings.ReplaceAll(message.Channel, side.semaphore, "NAME")+"="+message.Payload)
	}
}

// A semaphore alternates between our process and a peer that does only what Redisson does: each takes two of three permits, and releases them
// only when the other wants them. Redisson's waiters do not poll, so only our message can end one of their waits.
func TestWire_SemaphoreContendsWithRedisson(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	rounds := locktest.Scaled(500, 100)
	peer := locktest.NewPeerWith(t, p, redissonpeer.Config{})
	ours, theirs := semaphore(t, p, 3), peer.Semaphore(p.Name)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	inside := false // guarded by the semaphore alone
	var waiting, finished [2]atomic.Bool
	side := func(self int, acquire, release func(context.Context, int) error) {
		defer finished[self].Store(true)
		for range rounds {
			waiting[self].Store(true)
			if !assert.NoError(t, acquire(ctx, 2)) {
				return
			}
			waiting[self].Store(false)
			assert.False(t, inside, "side %d is not alone", self)
			inside = true
			for ctx.Err() == nil && !waiting[1-self].Load() && !finished[1-self].Load() {
				runtime.Gosched()
			}
			<-time.After(2 * time.Millisecond) // long enough for the other side to subscribe
			inside = false
			if !assert.NoError(t, release(ctx, 2)) {
				return
			}
		}
	}
	began := time.Now()
	var group sync.WaitGroup
	group.Go(func() { side(0, ours.Acquire, ours.Release) })
	group.Go(func() { side(1, theirs.Acquire, theirs.Release) })
	group.Wait()
	took := time.Since(began)
	t.Logf("%d rounds each in %v; the peer was woken %d times by a message", rounds, took.Round(time.Millisecond), peer.Wakeups().ByMessage)
	assert.Positive(t, peer.Wakeups().ByMessage) // may be fewer than rounds: on a busy machine, permits may become free while a waiter subscribes
	assert.Less(t, took, time.Duration(rounds)*time.Second/2, "their messages end our waits: polling would take a second each time")
	assert.Zero(t, peer.Malformed())
	returned(t, ours, 3)
}

// Our latches and Redisson's work together: the last count-down on one side releases the waiters on the other.
func TestWire_LatchSharedWithRedisson(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	rounds := locktest.Scaled(60, 6)
	peer := locktest.NewPeerWith(t, p, redissonpeer.Config{})
	rt := p.Runtime(t, holdfast.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var waited time.Duration
	for round := range rounds {
		ours, theirs := rt.CountDownLatch(p.Name), peer.Latch(p.Name)
		set, last := ours.TrySetCount, theirs.CountDown
		if round%2 == 0 {
			set, last = theirs.TrySetCount, ours.CountDown
		}
		ok, err := set(ctx, 2)
		require.NoError(t, err)
		require.True(t, ok)
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() { assert.NoError(t, ours.Wait(ctx)) })
			group.Go(func() { assert.NoError(t, theirs.Await(ctx)) })
		}
		subscribers(t, p, latchChannel(p), 2)
		require.NoError(t, ours.CountDown(ctx))
		began := time.Now()
		require.NoError(t, last(ctx))
		group.Wait()
		waited += time.Since(began)
	}
	assert.Less(t, waited, time.Duration(rounds)*time.Second/2, "polling would take a second each time")
	assert.Positive(t, peer.Wakeups().ByMessage)
	assert.Zero(t, peer.Malformed())
}

// Redisson has two faults. When a latch is deleted, Redisson's waiters are not released. And a message with a negative number of permits makes
// Redisson's listener throw. Our waiters are released, and we send no such message.
func TestWire_WhatRedissonDoesBadly(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	peer := locktest.NewPeerWith(t, p, redissonpeer.Config{})
	ours := semaphore(t, p, 0)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- peer.Semaphore(p.Name).Acquire(ctx, 1) }()
	subscribers(t, p, semaphoreChannel(p), 1)
	require.NoError(t, ours.AddPermits(ctx, -2))
	require.NoError(t, ours.Release(ctx, 1))
	assert.Zero(t, peer.Malformed())
	require.NoError(t, ours.Release(ctx, 2))
	require.NoError(t, come(t, "the permit", result))
	cancel()

	q := p.Another(t)
	l := latch(t, q, 1)
	released := waiting(t.Context(), l)
	subscribers(t, q, latchChannel(q), 1)
	deleted, err := peer.Latch(q.Name).Delete(t.Context())
	require.NoError(t, err)
	assert.True(t, deleted)
	require.NoError(t, come(t, "the end of the wait", released))
}
