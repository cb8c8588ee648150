package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// probes is the number of keys that List reads to find out whether the server has only a part of a cluster's keys.
const probes = 16

func list(t *testing.T, client redis.UniversalClient, o inspect.ListOptions) (entries []inspect.Entry) {
	t.Helper()
	for entry, err := range inspect.List(t.Context(), client, o) {
		require.NoError(t, err)
		entries = append(entries, entry)
	}
	return entries
}

func names(entries []inspect.Entry) (names []string) {
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func TestList_FindsEveryKind(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		o := inspect.ListOptions{Pattern: p.Name + "*", Batch: 3}
		contended := inspect.ListOptions{Pattern: p.Name + "*", Contended: true}
		assert.Empty(t, list(t, p.Redis, o))
		locktest.Acquire(t, p.Lock(rt))
		held := list(t, p.Redis, o)
		require.Len(t, held, 1, "the other keys of the lock are not listed")
		assert.Equal(t, seenAs(p.Kind.Name), held[0].Kind)
		assert.Empty(t, list(t, p.Redis, contended))
		if p.Kind.Deaf {
			return
		}
		pending := p.Lock(other).AcquireAsync(t.Context())
		defer pending.Cancel()
		awaitWaiting(t, p.Redis, p.Name, 1)
		p.WaitForListener(t)
		waited := list(t, p.Redis, contended)
		require.Equal(t, []string{p.Name}, names(waited))
		assert.Equal(t, p.Kind.Name, string(waited[0].Kind))
		assert.Equal(t, 1, waited[0].Waiting)
		assert.Empty(t, list(t, p.Redis, inspect.ListOptions{Pattern: "not" + p.Name, Contended: true}))
	})
}

func TestList_CountsToo(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		semaphore, permits, latch := p.Name+"-semaphore", p.Name+"-permits", p.Name+"-latch"
		for _, name := range []string{semaphore, permits} {
			_, err := rt.Semaphore(name).TrySetPermits(t.Context(), 1)
			require.NoError(t, err)
		}
		require.NoError(t, rt.Semaphore(semaphore).TryAcquire(t.Context(), 1))
		lease, err := rt.PermitSemaphore(permits).TryAcquire(t.Context())
		require.NoError(t, err)
		_, err = rt.CountDownLatch(latch).TrySetCount(t.Context(), 1)
		require.NoError(t, err)
		found := list(t, p.Redis, inspect.ListOptions{Pattern: p.Name + "-*"})
		assert.ElementsMatch(t, []string{semaphore, permits, latch}, names(found))

		errs := make(chan error, 3)
		go func() { errs <- rt.Semaphore(semaphore).Acquire(t.Context(), 1) }()
		go func() { errs <- rt.CountDownLatch(latch).Wait(t.Context()) }()
		go func() {
			_, err := rt.PermitSemaphore(permits).Acquire(t.Context())
			errs <- err
		}()
		locktest.Await(t, "a waiter for each name", func() bool {
			return len(list(t, p.Redis, inspect.ListOptions{Pattern: p.Name + "-*", Contended: true})) == 3
		})
		for _, e := range list(t, p.Redis, inspect.ListOptions{Pattern: p.Name + "-*", Contended: true}) {
			assert.Equal(t, map[string]holdfast.Kind{
				semaphore: holdfast.KindSemaphore, permits: holdfast.KindPermitSemaphore, latch: holdfast.KindLatch,
			}[e.Name], e.Kind)
		}
		locktest.Release(t, lease)
		require.NoError(t, rt.Semaphore(semaphore).Release(t.Context(), 1))
		require.NoError(t, rt.CountDownLatch(latch).CountDown(t.Context()))
		for range 3 {
			require.NoError(t, <-errs)
		}
	})
}

// List distinguishes names with and without braces, although "x" and "{x}" share a channel.
func TestList_NamesInBraces(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		tag := "{" + p.Name + "}"
		for _, name := range []string{p.Name, tag, tag + ":a", "b:" + tag} {
			for _, kind := range []func(rt *holdfast.Runtime) *holdfast.Lock{
				func(rt *holdfast.Runtime) *holdfast.Lock { return rt.Lock(name) },
				func(rt *holdfast.Runtime) *holdfast.Lock { return rt.FairLock(name) },
				func(rt *holdfast.Runtime) *holdfast.Lock { return rt.RWLock(name).Write() },
			} {
				lease := locktest.Acquire(t, kind(rt))
				pending := kind(other).AcquireAsync(t.Context())
				locktest.Await(t, name, func() bool {
					found := list(t, p.Redis, inspect.ListOptions{Contended: true, Pattern: "*" + p.Name + "*"})
					return len(found) == 1 && found[0].Name == name && found[0].Waiting == 1
				})
				locktest.Release(t, lease)
				next, err := pending.Lease()
				require.NoError(t, err)
				locktest.Release(t, next)
				locktest.Await(t, "nobody listens", func() bool {
					return len(list(t, p.Redis, inspect.ListOptions{Contended: true, Pattern: "*" + p.Name + "*"})) == 0
				})
			}
		}
	})
}

func TestList_EndsWithItsCaller(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	for i := range 100 {
		require.NoError(t, p.Redis.HSet(t.Context(), fmt.Sprint("lock", i), locktest.Stranger(i), 1).Err())
	}
	before := p.Server.CommandStats(t, "scan")["scan"]
	seen := 0
	for _, err := range inspect.List(t.Context(), p.Redis, inspect.ListOptions{Batch: 5}) {
		require.NoError(t, err)
		if seen++; seen == 7 {
			break
		}
	}
	assert.Equal(t, 7, seen)
	assert.Less(t, p.Server.CommandStats(t, "scan")["scan"]-before, int64(10))
	for _, batch := range []int{-1, 1001} {
		for _, err := range inspect.List(t.Context(), p.Redis, inspect.ListOptions{Batch: batch}) {
			assert.ErrorIs(t, err, holdfast.ErrInvalid)
		}
	}
}

// No single command that List sends reads more than one batch of keys, no matter how many keys there are.
func TestList_EveryCallIsShort(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	locks, others := locktest.Scaled(100_000, 10_000), locktest.Scaled(100_000, 10_000)
	fill(t, p.Redis, locks, others)
	require.NoError(t, p.Redis.ConfigSet(t.Context(), "slowlog-log-slower-than", "5000").Err())
	require.NoError(t, p.Redis.Do(t.Context(), "slowlog", "reset").Err())
	found := list(t, p.Redis, inspect.ListOptions{})
	assert.Len(t, found, locks)
	slow, err := p.Redis.SlowLogGet(t.Context(), 10).Result()
	require.NoError(t, err)
	for _, s := range slow {
		t.Logf("%v: %.80v", s.Duration, s.Args) // only logged: on a busy machine even a short command may take long
	}
	stats := p.Server.CommandStats(t, "scan", "type", "hscan", "hgetall", "keys", "eval", "evalsha", "get")
	calls := int64(locks + others)
	assert.GreaterOrEqual(t, stats["scan"], calls/200/2)
	assert.Equal(t, calls+probes, stats["type"])
	assert.Equal(t, int64(locks), stats["hscan"], "hashes that are no locks are not read")
	for _, long := range []string{"hgetall", "keys", "eval", "evalsha", "get"} {
		assert.Zero(t, stats[long], long)
	}
}

// fill writes locks, and hashes that are not locks.
func fill(t *testing.T, client redis.UniversalClient, locks, others int) {
	t.Helper()
	value := strings.Repeat("x", 100)
	for i := 0; i < locks+others; i += 1000 {
		_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for n := i; n < i+1000; n++ {
				if n < locks {
					p.HSet(t.Context(), fmt.Sprint("lock", n), locktest.Stranger(n), 1)
				} else {
					p.HSet(t.Context(), fmt.Sprint("session", n), "user", n, "data", value)
				}
			}
			return nil
		})
		require.NoError(t, err)
	}
}

// With Contended, List does not scan the keys of the server, so their number does not matter.
func TestList_ContendedDoesNotScan(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	fill(t, p.Redis, 1000, 10_000)
	rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
	locktest.Acquire(t, rt.Lock(p.Name))
	pending := other.Lock(p.Name).AcquireAsync(t.Context())
	defer pending.Cancel()
	awaitWaiting(t, p.Redis, p.Name, 1)
	count := []string{"scan", "type"}
	before := p.Server.CommandStats(t, count...)
	assert.Equal(t, []string{p.Name}, names(list(t, p.Redis, inspect.ListOptions{Contended: true})))
	after := p.Server.CommandStats(t, count...)
	assert.Equal(t, before["scan"], after["scan"])
	assert.LessOrEqual(t, after["type"]-before["type"], int64(2+probes))
}

// List returns an error for a client of only one of several masters, because the locks of the other masters are missing.
func TestList_OneMasterOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, time.Minute)
	for _, master := range cluster.Masters {
		for _, contended := range []bool{false, true} {
			var listed []error
			for _, err := range inspect.List(t.Context(), master.Client(t), inspect.ListOptions{Contended: contended}) {
				listed = append(listed, err)
			}
			if assert.Len(t, listed, 1) {
				assert.ErrorContains(t, listed[0], "part of a cluster's keys")
			}
		}
	}
}
