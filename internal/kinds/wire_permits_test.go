package kinds_test

import (
	"context"
	"encoding/hex"
	"fmt"
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

// permitSide is one side's semaphore: ours, or that of a client that does only what Redisson does.
type permitSide struct {
	name    string
	permits map[int]string // ids, by holder
	do      func(operation string, n int) any
}

func ourPermits(t *testing.T, rt *holdfast.Runtime, name string) *permitSide {
	s, ctx, leases := rt.PermitSemaphore(name), t.Context(), map[int]*holdfast.Lease{}
	side := &permitSide{name: name, permits: map[int]string{}}
	side.do = func(operation string, n int) any {
		switch operation {
		case "try set":
			return answer(s.TrySetPermits(ctx, n))
		case "set":
			return answer("", s.SetPermits(ctx, n))
		case "add":
			return answer("", s.AddPermits(ctx, n))
		case "take":
			lease, err := s.TryAcquire(ctx, holdfast.WithLease(time.Minute))
			if err == nil {
				leases[n], side.permits[n] = lease, lease.ID()
			}
			return err == nil
		case "give":
			return leases[n].Release(ctx) == nil
		case "give by id":
			return s.ReleaseID(ctx, side.permits[n], side.permits[n+1]) == nil
		case "all":
			return answer(s.Permits(ctx))
		case "out":
			return answer(s.Acquired(ctx))
		case "free":
			return answer(s.Available(ctx))
		}
		return answer(s.Delete(ctx))
	}
	return side
}

func theirPermits(t *testing.T, peer *redissonpeer.Peer, name string) *permitSide {
	s, ctx := peer.PermitSemaphore(name), t.Context()
	side := &permitSide{name: name, permits: map[int]string{}}
	side.do = func(operation string, n int) any {
		switch operation {
		case "try set":
			return answer(s.TrySetPermits(ctx, n))
		case "set":
			return answer("", s.SetPermits(ctx, n))
		case "add":
			return answer("", s.AddPermits(ctx, n))
		case "take":
			ids, err := s.TryAcquire(ctx, 1, time.Minute)
			require.NoError(t, err)
			if ids != nil {
				side.permits[n] = ids[0]
			}
			return ids != nil
		case "give":
			return answer(s.TryRelease(ctx, side.permits[n]))
		case "give by id":
			given, err := s.TryReleaseAll(ctx, side.permits[n], side.permits[n+1])
			return answer(given == 2, err)
		case "all":
			return answer(whole(s.Permits(ctx)))
		case "out":
			return answer(whole(s.Acquired(ctx)))
		case "free":
			return answer(whole(s.Available(ctx)))
		}
		return answer(s.Delete(ctx))
	}
	return side
}

// seen describes a side's keys in Redis, so that equal states of the two sides have equal descriptions. Our permits expire ten seconds later than
// Redisson's, so seen checks the time of expiry only roughly.
func (s *permitSide) seen(t *testing.T, client redis.UniversalClient) (all []string) {
	t.Helper()
	free, err := client.Get(t.Context(), s.name).Result()
	all = append(all, fmt.Sprint("free ", free, " ", err == nil, client.PTTL(t.Context(), s.name).Val()))
	zset := redissonpeer.PermitsKey(s.name)
	out := client.ZRangeWithScores(t.Context(), zset, 0, -1).Val()
	for _, permit := range out {
		raw := permit.Member.(string)
		assert.Len(t, raw, 16)
		known := false
		for _, id := range s.permits {
			known = known || id == hex.EncodeToString([]byte(raw))
		}
		assert.True(t, known, "an id is the hexadecimal form of what is in Redis")
		assert.InDelta(t, 65, time.Until(time.UnixMilli(int64(permit.Score))).Seconds(), 15)
	}
	return append(all, fmt.Sprint("out ", len(out), " ", client.PTTL(t.Context(), zset).Val()))
}

// After every operation, our permit semaphore has the same keys as Redisson's, and has sent the same messages and returned the same answer.
func TestWire_PermitsLookLikeRedissons(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	sides := []*permitSide{ourPermits(t, p.Runtime(t, holdfast.Options{}), "ours"), theirPermits(t, locktest.NewPeer(t, p), "theirs")}
	pubsub := p.Redis.PSubscribe(t.Context(), "*")
	t.Cleanup(func() { _ = pubsub.Close() })
	_, err := pubsub.Receive(t.Context())
	require.NoError(t, err)
	for i, step := range []struct {
		operation string
		n         int
	}{
		{"free", 0}, {"all", 0}, {"out", 0}, {"take", 1}, {"delete", 0}, {"try set", 3}, {"try set", 5}, {"take", 1}, {"take", 2}, {"free", 0},
		{"out", 0}, {"all", 0}, {"take", 3}, {"take", 4}, {"give", 1}, {"give", 1}, {"take", 4}, {"give by id", 2}, {"give by id", 2}, {"out", 0},
		{"set", 1}, {"set", 1}, {"take", 5}, {"set", 0}, {"free", 0}, {"give", 4}, {"add", 3}, {"add", -1}, {"add", 0}, {"free", 0},
		{"delete", 0}, {"delete", 0}, {"add", 2}, {"take", 6}, {"give", 6}, {"delete", 0}, {"set", 4}, {"all", 0},
	} {
		var seen []string
		for _, side := range sides {
			answer := side.do(step.operation, step.n)
			messages := messagesOf(t, p.Redis, pubsub, countSide{semaphore: side.name})
			seen = append(seen, fmt.Sprint(answer, side.seen(t, p.Redis), messages))
		}
		assert.Equal(t, seen[1], seen[0], "step %d: %s %d", i, step.operation, step.n)
	}
}

// Our process and a peer that does only what Redisson does compete for two permits, with three threads on each side.
func TestWire_PermitsContendWithRedisson(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	const permits = 2
	rounds := locktest.Scaled(150, 20)
	ours, peer := p.Runtime(t, holdfast.Options{}).PermitSemaphore(p.Name), locktest.NewPeer(t, p)
	theirs := peer.PermitSemaphore(p.Name)
	require.NoError(t, ours.SetPermits(t.Context(), permits))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var holders atomic.Int64
	inside := func() {
		assert.LessOrEqual(t, holders.Add(1), int64(permits))
		<-time.After(time.Millisecond)
		holders.Add(-1)
	}
	var all sync.WaitGroup
	began := time.Now()
	for range 3 {
		all.Go(func() {
			for range rounds {
				lease, err := ours.Acquire(ctx)
				if !assert.NoError(t, err) {
					return
				}
				inside()
				assert.NoError(t, lease.Release(ctx))
			}
		})
		all.Go(func() {
			for range rounds {
				ids, err := theirs.Acquire(ctx, 1, 0)
				if !assert.NoError(t, err) {
					return
				}
				inside()
				_, err = theirs.TryReleaseAll(ctx, ids...)
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	assert.Less(t, time.Since(began), time.Duration(rounds)*time.Second, "woken by messages: polling takes a second each time")
	assert.Zero(t, peer.Malformed())
	assert.Equal(t, fmt.Sprint(permits), p.Redis.Get(t.Context(), p.Name).Val())
	assert.Zero(t, p.Redis.Exists(t.Context(), redissonpeer.PermitsKey(p.Name)).Val())
}

// Redisson acquires a permit. When Redisson releases the permit, or when we release it by its ID, a message wakes our waiters. When we release our
// own lease, a message wakes Redisson's waiters.
func TestWire_PermitsWakeByMessage(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		p = p.Plain()
		stalls := locktest.WatchStalls(t, p)
		ours, peer := p.Runtime(t, holdfast.Options{}).PermitSemaphore(p.Name), locktest.NewPeer(t, p)
		theirs := peer.PermitSemaphore(p.Name)
		_, err := theirs.TrySetPermits(t.Context(), 1)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
		defer cancel()
		for way, release := range map[string]func(id string) error{
			"by theirs": func(id string) error { _, err := theirs.TryRelease(ctx, id); return err },
			"by ours":   func(id string) error { return ours.ReleaseID(ctx, id) },
		} {
			ids, err := theirs.Acquire(ctx, 1, 0) // forever
			require.NoError(t, err)
			waiting := make(chan *holdfast.Lease, 1)
			go func() {
				lease, err := ours.Acquire(ctx)
				assert.NoError(t, err)
				waiting <- lease
			}()
			subscribers(t, p, semaphoreChannel(p), 1)
			stalls.Take()
			start := time.Now()
			require.NoError(t, release(ids[0]))
			lease := <-waiting
			require.NotNil(t, lease)
			assert.Less(t, time.Since(start), 500*time.Millisecond+stalls.Slack(), way)

			theirTurn := make(chan error, 1)
			go func() {
				ids, err = theirs.Acquire(ctx, 1, 0)
				theirTurn <- err
			}()
			locktest.AwaitBlocked(t, peer, 1)
			before := peer.Wakeups().ByMessage
			locktest.Release(t, lease)
			require.NoError(t, <-theirTurn, "woken by our message")
			assert.Greater(t, peer.Wakeups().ByMessage, before)
			freed, err := theirs.TryReleaseAll(ctx, ids...)
			require.NoError(t, err)
			assert.Equal(t, int64(1), freed)
		}
		assert.Zero(t, peer.Malformed())
	})
}

// Two of Redisson's threads wait for permits. Either both want two permits, or one of them wants two and the other wants one. When we release our
// two permits, both threads are served, one after the other.
func TestWire_PermitsForRedissonsWhoWantSeveral(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		p = p.Plain()
		rt, peer := p.Runtime(t, holdfast.Options{}), locktest.NewPeer(t, p)
		ours, theirs := rt.PermitSemaphore(p.Name), peer.PermitSemaphore(p.Name)
		require.NoError(t, ours.SetPermits(t.Context(), 2))
		ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
		defer cancel()
		for _, wanted := range [][]int{{2, 2}, {1, 2}, {2, 1}} {
			first, second := locktest.AcquirePermit(t, ours), locktest.AcquirePermit(t, ours)
			var all sync.WaitGroup
			for _, n := range wanted {
				all.Go(func() {
					ids, err := theirs.Acquire(ctx, n, 0)
					assert.NoError(t, err)
					_, err = theirs.TryReleaseAll(ctx, ids...)
					assert.NoError(t, err)
				})
			}
			locktest.AwaitBlocked(t, peer, 2)
			require.NoError(t, ours.ReleaseID(ctx, first.ID(), second.ID()))
			all.Wait()
		}
		free, err := ours.Available(ctx)
		require.NoError(t, err)
		assert.Equal(t, 2, free)
	})
}

// When the lease of one of Redisson's permits has ended, Redisson's clients may take the permit at once. Our side waits ten seconds longer, because
// the client that wrote the expiry may have a wrong clock. Our own permits expire in Redis ten seconds after their leases, so a Redisson client whose
// clock is up to ten seconds ahead does not take them too early.
func TestWire_PermitsOfClientsWithOtherClocks(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	ahead := redissonpeer.New(locktest.NewClient(t, p.Addr), redissonpeer.Config{ClockAhead: 9 * time.Second})
	t.Cleanup(ahead.Close)
	rt := p.Runtime(t, holdfast.Options{})
	ours, theirs := rt.PermitSemaphore(p.Name), ahead.PermitSemaphore(p.Name)
	require.NoError(t, ours.SetPermits(t.Context(), 1))
	lease := locktest.AcquirePermit(t, ours, holdfast.WithLease(900*time.Millisecond))
	locktest.Stays(t, "it is not taken", 600*time.Millisecond, func() bool {
		ids, err := theirs.TryAcquire(t.Context(), 1, time.Minute)
		return err == nil && ids == nil || !lease.Valid()
	})
	_ = lease.Release(t.Context())

	q := p.Another(t)
	ours, theirs = rt.PermitSemaphore(q.Name), locktest.NewPeer(t, p).PermitSemaphore(q.Name)
	require.NoError(t, ours.SetPermits(t.Context(), 1))
	ids, err := theirs.TryAcquire(t.Context(), 1, 100*time.Millisecond)
	require.NoError(t, err)
	require.Len(t, ids, 1)
	locktest.Stays(t, "we wait for longer", 500*time.Millisecond, func() bool {
		_, err := ours.TryAcquire(t.Context())
		return err != nil
	})
	again, err := theirs.TryAcquire(t.Context(), 1, time.Minute)
	require.NoError(t, err)
	assert.Len(t, again, 1, "it has expired")
}
