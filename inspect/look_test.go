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

func look(t *testing.T, client redis.UniversalClient, name string) inspect.Entry {
	t.Helper()
	entry, err := inspect.Look(t.Context(), client, name)
	require.NoError(t, err)
	return entry
}

// awaitWaiting waits until Redis knows of n waiters.
func awaitWaiting(t *testing.T, client redis.UniversalClient, name string, n int) inspect.Entry {
	t.Helper()
	var entry inspect.Entry
	locktest.Await(t, "waiters", func() bool {
		entry = look(t, client, name)
		return entry.Waiting == n
	})
	return entry
}

// assertLease checks the TTL of a lease of 30 s that has just begun or was renewed.
func assertLease(t *testing.T, ttl time.Duration) {
	t.Helper()
	assert.Greater(t, ttl, 15*time.Second)
	assert.LessOrEqual(t, ttl, 30*time.Second)
}

// seenAs returns the kind that Look reports for a lock while nobody waits for it.
func seenAs(kind string) holdfast.Kind {
	if kind == "spin lock" || kind == "fair lock" {
		return holdfast.KindLock
	}
	return holdfast.Kind(kind)
}

func TestLook_TellsWhoHoldsAndWaits(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		assert.Equal(t, inspect.Entry{Name: p.Name}, look(t, p.Redis, p.Name), "not in use")

		lease := locktest.Acquire(t, p.Lock(rt))
		held := look(t, p.Redis, p.Name)
		assert.Equal(t, seenAs(p.Kind.Name), held.Kind)
		assert.Equal(t, p.Name, held.Key)
		assert.Equal(t, p.Kind.Mode, held.Mode)
		assert.GreaterOrEqual(t, held.Token, lease.Token())
		assertLease(t, held.TTL)
		require.Len(t, held.Holders, 1)
		assert.Equal(t, inspect.Holder{ID: lease.ID(), Holds: 1, TTL: held.TTL}, held.Holders[0])
		assert.Zero(t, held.Waiting)
		assert.Empty(t, held.Queue)

		if p.Kind.Deaf {
			return
		}
		pending := p.Lock(other).AcquireAsync(t.Context())
		waiting := awaitWaiting(t, p.Redis, p.Name, 1)
		for p.Kind.Queued && len(waiting.Queue) == 0 { // the waiter subscribes before it is in the queue
			waiting = awaitWaiting(t, p.Redis, p.Name, 1)
		}
		assert.Equal(t, p.Kind.Name, string(waiting.Kind))
		if p.Kind.Queued {
			require.Len(t, waiting.Queue, 1)
			assert.True(t, strings.HasPrefix(waiting.Queue[0], other.ID()+":"))
		}
		locktest.Release(t, lease)
		next, err := pending.Lease()
		require.NoError(t, err)
		assert.Equal(t, next.ID(), look(t, p.Redis, p.Name).Holders[0].ID)
		locktest.Release(t, next)
		assert.Equal(t, inspect.Entry{Name: p.Name}, look(t, p.Redis, p.Name))
	})
}

func TestLook_Readers(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		first := locktest.Acquire(t, rt.RWLock(p.Name).Read())
		second := locktest.Acquire(t, other.RWLock(p.Name).Read(), holdfast.WithLease(time.Hour))
		entry := look(t, p.Redis, p.Name)
		assert.Equal(t, holdfast.KindRead, entry.Kind)
		assert.Equal(t, "read", entry.Mode)
		require.Len(t, entry.Holders, 2)
		for _, h := range entry.Holders {
			if h.ID == first.ID() {
				assertLease(t, h.TTL)
			} else {
				assert.Equal(t, second.ID(), h.ID)
				assert.Greater(t, h.TTL, 59*time.Minute)
			}
		}
		assert.Greater(t, entry.TTL, 59*time.Minute)
	})
}

func TestLook_WriterThatReads(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	rt := p.Runtime(t, holdfast.Options{})
	owner := holdfast.WithOwner(rt.NewOwner())
	locktest.Acquire(t, rt.RWLock(p.Name).Write(), owner)
	locktest.Acquire(t, rt.RWLock(p.Name).Read(), owner)
	entry := look(t, p.Redis, p.Name)
	assert.Equal(t, holdfast.KindWrite, entry.Kind)
	assert.Equal(t, "write", entry.Mode)
	assert.Len(t, entry.Holders, 2)
	for _, h := range entry.Holders {
		assertLease(t, h.TTL)
	}
}

func TestLook_Queue(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	require.NoError(t, p.Redis.HSet(t.Context(), p.Name, locktest.Stranger(0), 1).Err())
	var queue []string
	for i := range 600 { // several pages
		queue = append(queue, locktest.Stranger(i+1))
	}
	require.NoError(t, p.Redis.RPush(t.Context(), "redisson_lock_queue:{"+p.Name+"}", queue).Err())
	entry := look(t, p.Redis, p.Name)
	assert.Equal(t, holdfast.KindFair, entry.Kind)
	assert.Equal(t, queue, entry.Queue)
	assert.Equal(t, 600, entry.Waiting)
	require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
	assert.Equal(t, inspect.Entry{Kind: holdfast.KindFair, Name: p.Name, Key: p.Name, Queue: queue, Waiting: 600}, look(t, p.Redis, p.Name))
	assert.False(t, free(t, p.Redis, p.Name), "nobody holds it")
}

func TestLook_ManyReaders(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	fields := []any{"mode", "read"}
	for i := range 1000 { // several pages
		fields = append(fields, locktest.Stranger(i), 1)
	}
	require.NoError(t, p.Redis.HSet(t.Context(), p.Name, fields...).Err())
	timeout := "{" + p.Name + "}:" + locktest.Stranger(700) + ":rwlock_timeout:1"
	require.NoError(t, p.Redis.Set(t.Context(), timeout, 1, time.Hour).Err())
	entry := look(t, p.Redis, p.Name)
	assert.Len(t, entry.Holders, 1000)
	for _, h := range entry.Holders {
		assert.Equal(t, h.ID == locktest.Stranger(700), h.TTL > 0)
	}
	assert.True(t, free(t, p.Redis, p.Name))
}

func TestLook_ListsAtMostTenThousand(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	const most = 10_000
	fields, permits, queue := []any{"mode", "read"}, []redis.Z(nil), []any(nil)
	for i := range most + 1000 {
		fields = append(fields, locktest.Stranger(i), 1)
		permits = append(permits, redis.Z{Member: fmt.Sprintf("%016x", i), Score: 922337203685477})
		queue = append(queue, locktest.Stranger(i))
	}
	for i := range 5 * most { // so many fields that Look probably does not read the field "mode"
		fields = append(fields, locktest.Stranger(2*most+i), 1)
	}
	require.NoError(t, p.Redis.HSet(t.Context(), p.Name, fields...).Err())
	entry := look(t, p.Redis, p.Name)
	assert.Equal(t, holdfast.KindRead, entry.Kind)
	holders := len(entry.Holders)
	assert.LessOrEqual(t, holders, most)
	assert.GreaterOrEqual(t, holders, most*9/10, "HSCAN may return fields twice")

	fair := p.Another(t).Name
	require.NoError(t, p.Redis.RPush(t.Context(), "redisson_lock_queue:{"+fair+"}", queue...).Err())
	waiters := len(look(t, p.Redis, fair).Queue)
	assert.Equal(t, most, waiters)

	semaphore := p.Another(t).Name
	require.NoError(t, p.Redis.Set(t.Context(), semaphore, 1, 0).Err())
	require.NoError(t, p.Redis.ZAdd(t.Context(), "{"+semaphore+"}:timeout", permits...).Err())
	acquired := len(look(t, p.Redis, semaphore).Holders)
	assert.Equal(t, most, acquired)
}

func TestLook_PermitSemaphore(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		permits := rt.PermitSemaphore(p.Name)
		require.NoError(t, permits.SetPermits(t.Context(), 3))
		entry := look(t, p.Redis, p.Name)
		assert.Equal(t, holdfast.KindSemaphore, entry.Kind, "without acquired permits it looks the same")
		assert.Equal(t, 3, entry.Available)

		lease, err := permits.TryAcquire(t.Context())
		require.NoError(t, err)
		fixed, err := permits.TryAcquire(t.Context(), holdfast.WithLease(time.Hour))
		require.NoError(t, err)
		entry = look(t, p.Redis, p.Name)
		assert.Equal(t, holdfast.KindPermitSemaphore, entry.Kind)
		assert.Equal(t, 3, entry.Permits)
		assert.Equal(t, 1, entry.Available)
		assert.Zero(t, entry.Count)
		require.Len(t, entry.Holders, 2)
		for _, h := range entry.Holders {
			assert.Equal(t, 1, h.Holds)
			if h.ID == lease.ID() {
				assertLease(t, h.TTL)
			} else {
				assert.Equal(t, fixed.ID(), h.ID)
				assert.Greater(t, h.TTL, 59*time.Minute)
				assert.LessOrEqual(t, h.TTL, time.Hour)
			}
		}
		locktest.Release(t, lease)
		locktest.Release(t, fixed)
	})
}

func TestLook_PermitsOfRedisson(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	now, err := p.Redis.Time(t.Context()).Result()
	require.NoError(t, err)
	score := func(d time.Duration) float64 { return float64(now.Add(d).UnixMilli()) }
	require.NoError(t, p.Redis.Set(t.Context(), p.Name, 1, 0).Err())
	require.NoError(t, p.Redis.ZAdd(t.Context(), "{"+p.Name+"}:timeout",
		redis.Z{Member: strings.Repeat("\xff", 16), Score: 922337203685477},
		redis.Z{Member: strings.Repeat("\x01", 16), Score: score(time.Minute)},
		redis.Z{Member: strings.Repeat("\x02", 16), Score: score(-time.Minute)}).Err())
	entry := look(t, p.Redis, p.Name)
	assert.Equal(t, holdfast.KindPermitSemaphore, entry.Kind)
	assert.Equal(t, 4, entry.Permits)
	assert.Equal(t, 2, entry.Available, "the expired one is free")
	require.Len(t, entry.Holders, 2)
	assert.Equal(t, strings.Repeat("01", 16), entry.Holders[0].ID)
	assert.InDelta(t, time.Minute, entry.Holders[0].TTL, float64(locktest.Patience))
	assert.Equal(t, strings.Repeat("ff", 16), entry.Holders[1].ID)
	assert.Negative(t, entry.Holders[1].TTL, "it never expires")
}

func TestLook_SemaphoreAndLatch(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		semaphore := rt.Semaphore(p.Name)
		_, err := semaphore.TrySetPermits(t.Context(), 2)
		require.NoError(t, err)
		entry := look(t, p.Redis, p.Name)
		assert.Equal(t, inspect.Entry{Kind: holdfast.KindSemaphore, Name: p.Name, Key: p.Name, Available: 2, Count: 2}, entry)

		latched := p.Another(t)
		latch := rt.CountDownLatch(latched.Name)
		_, err = latch.TrySetCount(t.Context(), 2)
		require.NoError(t, err)
		assert.Equal(t, holdfast.KindSemaphore, look(t, p.Redis, latched.Name).Kind, "they look the same")
		done := make(chan error, 1)
		go func() { done <- latch.Wait(t.Context()) }()
		entry = awaitWaiting(t, p.Redis, latched.Name, 1)
		assert.Equal(t, inspect.Entry{Kind: holdfast.KindLatch, Name: latched.Name, Key: latched.Name, Count: 2, Waiting: 1}, entry)
		require.NoError(t, latch.CountDown(t.Context()))
		require.NoError(t, latch.CountDown(t.Context()))
		require.NoError(t, <-done)
	})
}

// Redisson's objects, as its client leaves them in Redis.
func TestLook_Redisson(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	owner, other := locktest.Stranger(57), locktest.Stranger(-3)
	require.NoError(t, p.Redis.HSet(t.Context(), p.Name, owner, 3).Err())
	assert.Equal(t, inspect.Entry{
		Kind: holdfast.KindLock, Name: p.Name, Key: p.Name, Mode: "exclusive", TTL: -1, Holders: []inspect.Holder{{ID: owner, Holds: 3, TTL: -1}},
	}, look(t, p.Redis, p.Name))

	rw := p.Another(t).Name
	require.NoError(t, p.Redis.HSet(t.Context(), rw, "mode", "read", owner, 2, other, 1).Err())
	require.NoError(t, p.Redis.PExpire(t.Context(), rw, time.Hour).Err())
	for key, ttl := range map[string]time.Duration{
		"{" + rw + "}:" + owner + ":rwlock_timeout:1": time.Minute, "{" + rw + "}:" + owner + ":rwlock_timeout:2": time.Hour,
	} {
		require.NoError(t, p.Redis.Set(t.Context(), key, 1, ttl).Err())
	}
	entry := look(t, p.Redis, rw)
	assert.Equal(t, holdfast.KindRead, entry.Kind)
	require.Len(t, entry.Holders, 2)
	assert.Equal(t, inspect.Holder{ID: other, Holds: 1}, entry.Holders[0], "its lease has expired")
	assert.Equal(t, owner, entry.Holders[1].ID)
	assert.Equal(t, 2, entry.Holders[1].Holds)
	assert.Greater(t, entry.Holders[1].TTL, 50*time.Minute, "the longest of its holds")

	fenced := p.Another(t).Name
	require.NoError(t, p.Redis.HSet(t.Context(), fenced, owner, 1).Err())
	require.NoError(t, p.Redis.Set(t.Context(), "redisson_lock_token:{"+fenced+"}", 17, 0).Err())
	entry = look(t, p.Redis, fenced)
	assert.Equal(t, holdfast.KindFenced, entry.Kind)
	assert.Equal(t, int64(17), entry.Token)
}

// None of these keys is a lock. The error says what the key holds, and List skips it.
func TestLook_ForeignKeys(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	ctx, owner := t.Context(), locktest.Stranger(1)
	large := strings.Repeat("x", 1<<20)
	for name, write := range map[string]func(name string) error{
		"string":       func(name string) error { return p.Redis.Set(ctx, name, "a token of another library", 0).Err() },
		"large string": func(name string) error { return p.Redis.Set(ctx, name, large, 0).Err() },
		"long number":  func(name string) error { return p.Redis.Set(ctx, name, "1234567890123456", 0).Err() },
		"list":         func(name string) error { return p.Redis.RPush(ctx, name, owner).Err() },
		"set":          func(name string) error { return p.Redis.SAdd(ctx, name, owner).Err() },
		"sorted set":   func(name string) error { return p.Redis.ZAdd(ctx, name, redis.Z{Member: owner}).Err() },
		"stream": func(name string) error {
			return p.Redis.XAdd(ctx, &redis.XAddArgs{Stream: name, Values: []string{"a", "b"}}).Err()
		},
		"hash":           func(name string) error { return p.Redis.HSet(ctx, name, "field", large).Err() },
		"two owners":     func(name string) error { return p.Redis.HSet(ctx, name, owner, 1, locktest.Stranger(2), 1).Err() },
		"owner and more": func(name string) error { return p.Redis.HSet(ctx, name, owner, 1, "field", "x").Err() },
		"no number":      func(name string) error { return p.Redis.HSet(ctx, name, owner, "x").Err() },
		"no holds":       func(name string) error { return p.Redis.HSet(ctx, name, owner, 0).Err() },
		"mode alone":     func(name string) error { return p.Redis.HSet(ctx, name, "mode", "read").Err() },
		"mode":           func(name string) error { return p.Redis.HSet(ctx, name, "mode", "fast", owner, 1).Err() },
		"writer alone":   func(name string) error { return p.Redis.HSet(ctx, name, owner+":write", 1).Err() },
		"permits": func(name string) error {
			return p.Redis.Set(ctx, name, 1, 0).Err()
		},
	} {
		require.NoError(t, write(name))
	}
	require.NoError(t, p.Redis.ZAdd(ctx, "{permits}:timeout", redis.Z{Member: "no permit"}).Err())
	keys, err := p.Redis.Keys(ctx, "*").Result()
	require.NoError(t, err)
	for _, name := range keys {
		entry, err := inspect.Look(ctx, p.Redis, name)
		assert.ErrorIs(t, err, holdfast.ErrForeignKey, name)
		assert.Equal(t, inspect.Entry{Name: name}, entry)
		_, err = inspect.Free(ctx, p.Redis, name)
		assert.ErrorIs(t, err, holdfast.ErrForeignKey, name)
	}
	assert.Empty(t, list(t, p.Redis, inspect.ListOptions{}))
	left, err := p.Redis.Keys(ctx, "*").Result()
	require.NoError(t, err)
	assert.ElementsMatch(t, keys, left)
}

// A lock has further keys, such as the key of its queue. If one of these holds something else, Look shows the lock as if that key did not exist.
func TestLook_ForeignSideKeys(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	ctx, owner := t.Context(), locktest.Stranger(1)
	want := inspect.Entry{
		Kind: holdfast.KindLock, Name: p.Name, Key: p.Name, Mode: "exclusive", TTL: -1, Holders: []inspect.Holder{{ID: owner, Holds: 1, TTL: -1}},
	}
	require.NoError(t, p.Redis.HSet(ctx, p.Name, owner, 1).Err())
	queue, token := "redisson_lock_queue:{"+p.Name+"}", "redisson_lock_token:{"+p.Name+"}"
	for _, write := range []func() error{
		func() error { return p.Redis.Set(ctx, queue, "no list", 0).Err() },
		func() error { return p.Redis.Set(ctx, token, "no number", 0).Err() },
		func() error {
			return p.Redis.Set(ctx, "holdfast_process:{all}:"+owner[:36], "no announcement", 0).Err()
		},
		func() error { return p.Redis.Del(ctx, queue, token).Err() },
		func() error { return p.Redis.RPush(ctx, queue, "no owner", "<script>").Err() },
		func() error { return p.Redis.RPush(ctx, token, "no string").Err() },
	} {
		require.NoError(t, write())
		assert.Equal(t, want, look(t, p.Redis, p.Name))
	}
}

// hostile are odd names that Redis allows.
var hostile = []string{
	"<script>alert(1)</script>", "a\x00b\nc\x1b[2J", "\xff\xfe", strings.Repeat("n", 512),
	"a b 'c' \"d\" \\", "{", "}", "{}", "a{b", "%", "*", "{x}y", "\u202e",
}

func TestLook_HostileNames(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		var written []string
		for _, name := range hostile {
			if name = p.Name + ":" + name; strings.HasSuffix(name, "nnn") {
				name = name[len(name)-512:]
			}
			require.NoError(t, p.Redis.HSet(t.Context(), name, locktest.Stranger(1), 1).Err())
			written = append(written, name)
			entry := look(t, p.Redis, name)
			assert.Equal(t, name, entry.Name)
			assert.Equal(t, holdfast.KindLock, entry.Kind)
		}
		assert.Subset(t, names(list(t, p.Redis, inspect.ListOptions{})), written)
		for _, name := range written {
			if strings.ContainsAny(name, "{}") && p.Cluster != nil {
				continue // the channel may be in another slot than the key, and no script can use both
			}
			assert.True(t, free(t, p.Redis, name), "%q", name)
		}
		for _, name := range []string{"", strings.Repeat("n", 513)} {
			_, err := inspect.Look(t.Context(), p.Redis, name)
			assert.ErrorIs(t, err, holdfast.ErrInvalid)
			_, err = inspect.Free(t.Context(), p.Redis, name)
			assert.ErrorIs(t, err, holdfast.ErrInvalid)
		}
	})
}

func TestLook_Replica(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	replica := redistest.Follow(t, p.Server).Client(t)
	lease := locktest.Acquire(t, p.Runtime(t, holdfast.Options{}).Lock(p.Name))
	locktest.Await(t, "the lock on the replica", func() bool {
		entry := look(t, replica, p.Name)
		return len(entry.Holders) == 1 && entry.Holders[0].ID == lease.ID()
	})
	assert.Len(t, list(t, replica, inspect.ListOptions{}), 1)
}

func TestLook_ServerAway(t *testing.T) {
	t.Parallel()
	client := locktest.ClientWith(t, &redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	_, err := inspect.Look(t.Context(), client, "x")
	assert.ErrorContains(t, err, `holdfast: look at "x": `)
	for entry, err := range inspect.List(t.Context(), client, inspect.ListOptions{Contended: true}) {
		assert.Zero(t, entry)
		assert.ErrorContains(t, err, "holdfast: list: ")
	}
	_, err = inspect.Free(t.Context(), client, "x")
	assert.ErrorContains(t, err, `holdfast: free "x": `)
	_, err = inspect.Processes(t.Context(), client)
	assert.ErrorContains(t, err, "holdfast: processes: ")
}

// A refused connection says nothing about the key: neither that it is free, nor that it holds something else.
func TestLook_WrongPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "secret")
	options := server.Options()
	options.Password = "wrong"
	client := locktest.ClientWith(t, options)
	_, err := inspect.Look(t.Context(), client, "x")
	assert.ErrorContains(t, err, "WRONGPASS")
	_, err = inspect.Free(t.Context(), client, "x")
	assert.ErrorContains(t, err, "WRONGPASS")
}

// The subscribers on a server that is down are unknown, but locks on the other servers must still be shown.
func TestLook_WhileAnotherMasterIsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, time.Minute)
	client := locktest.ClusterClient(t, cluster)
	name := redistest.Name(t)
	require.NoError(t, client.HSet(t.Context(), name, locktest.Stranger(1), 1).Err())
	for _, master := range cluster.Masters {
		if master.Addr() != cluster.Owner(name).Addr() {
			master.Kill()
			break
		}
	}
	assert.Equal(t, holdfast.KindLock, look(t, client, name).Kind)
	assert.True(t, free(t, client, name))
}

// A client that cannot be used is refused. A Ring would silently leave out the keys of some of its servers. With fewer than -1 retries or redirects,
// go-redis sends nothing and reports success, so a list would be empty.
func TestLook_ClientsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1", "other": "127.0.0.1:2"}})
	t.Cleanup(func() { _ = ring.Close() })
	silent := locktest.ClientWith(t, &redis.Options{Addr: "127.0.0.1:1", MaxRetries: -2})
	retries := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRetries: -2})
	t.Cleanup(func() { _ = retries.Close() })
	redirects := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRedirects: -2})
	t.Cleanup(func() { _ = redirects.Close() })
	for _, client := range []redis.UniversalClient{nil, ring, silent, retries, redirects} {
		_, err := inspect.Look(t.Context(), client, "orders")
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		_, err = inspect.Free(t.Context(), client, "orders")
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		_, err = inspect.Processes(t.Context(), client)
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		var listed []error
		for _, err := range inspect.List(t.Context(), client, inspect.ListOptions{}) {
			listed = append(listed, err)
		}
		if assert.Len(t, listed, 1) {
			assert.ErrorIs(t, listed[0], holdfast.ErrInvalid)
		}
	}
}
