package kinds_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
)

// readWriteSide is one side's read/write lock: ours, or that of a client that does only what Redisson does.
type readWriteSide struct {
	name, uuid string
	do         func(operation, half string, who int, lease time.Duration)
	threads    map[string]string // the owners' names in the descriptions, by UUID:number; the owner that appears first is ownerA
}

func ourReadWrite(t *testing.T, rt *holdfast.Runtime, name string) *readWriteSide {
	owners, leases := map[int]holdfast.Owner{}, map[string]*holdfast.Lease{}
	return &readWriteSide{name, rt.ID(), func(operation, half string, who int, lease time.Duration) {
		lock, key := map[string]*holdfast.Lock{"read": rt.RWLock(name).Read(), "write": rt.RWLock(name).Write()}[half], fmt.Sprint(half, who)
		if _, known := owners[who]; !known {
			owners[who] = rt.NewOwner()
		}
		switch operation {
		case "lock":
			options := []holdfast.AcquireOption{holdfast.WithOwner(owners[who])}
			if lease > 0 {
				options = append(options, holdfast.WithLease(lease))
			}
			leases[key] = locktest.Acquire(t, lock, options...)
		case "unlock":
			locktest.Release(t, leases[key])
		case "force":
			_, err := lock.ForceRelease(t.Context())
			require.NoError(t, err)
		}
	}, map[string]string{}}
}

func theirReadWrite(t *testing.T, client redis.UniversalClient, peer *redissonpeer.Peer, name string) *readWriteSide {
	return &readWriteSide{name, peer.ID(), func(operation, half string, who int, lease time.Duration) {
		lock := theirHalf(peer, name, half, who)
		switch operation {
		case "lock":
			require.NoError(t, lock.Lock(t.Context(), lease))
		case "unlock":
			require.NoError(t, lock.Unlock(t.Context()))
		case "force":
			forced, err := lock.ForceUnlock(t.Context())
			require.NoError(t, err)
			if left := client.Keys(t.Context(), name+":*:rwlock_timeout:*").Val(); forced && len(left) > 0 {
				require.NoError(t, client.Del(t.Context(), left...).Err())
			}
		}
	}, map[string]string{}}
}

func theirHalf(peer *redissonpeer.Peer, name, half string, thread int) redissonpeer.Lock {
	if half == "read" {
		return peer.RReadLock(name, int64(thread))
	}
	return peer.RWriteLock(name, int64(thread))
}

var afterUUID = regexp.MustCompile(`UUID:\d+`)

// seen describes a side's keys in Redis, so that equal states of the two sides have equal descriptions.
func (s *readWriteSide) seen(t *testing.T, client redis.UniversalClient) (all []string) {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*"+s.name+"*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		value := client.Get(t.Context(), key).Val()
		if key == s.name {
			fields := client.HGetAll(t.Context(), key).Val()
			value = ""
			for _, field := range slices.Sorted(maps.Keys(fields)) {
				value += " " + field + "=" + fields[field]
			}
		}
		all = append(all, fmt.Sprint(key, ": ", value, ", ", client.PTTL(t.Context(), key).Val().Round(10*time.Second)))
	}
	for i, line := range all {
		line = strings.ReplaceAll(strings.ReplaceAll(line, s.name, "NAME"), s.uuid, "UUID")
		all[i] = afterUUID.ReplaceAllStringFunc(line, func(owner string) string {
			if s.threads[owner] == "" {
				s.threads[owner] = "owner" + string(rune('A'+len(s.threads)))
			}
			return s.threads[owner]
		})
	}
	slices.Sort(all)
	return all
}

// After every operation, our read/write lock has the same fields, readers' keys and TTLs as Redisson's, and has sent the same messages, with two
// exceptions. We send one more message, when a writer continues as a reader. And we delete the timeout keys of readers that are released by force,
// which Redisson leaves behind.
func TestWire_ReadWriteLockLooksLikeRedissons(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	sides := []*readWriteSide{ourReadWrite(t, p.Runtime(t, holdfast.Options{}), "ours"), theirReadWrite(t, p.Redis, locktest.NewPeer(t, p), "{their}:s")}
	pubsub := p.Redis.PSubscribe(t.Context(), "*")
	t.Cleanup(func() { _ = pubsub.Close() })
	_, err := pubsub.Receive(t.Context())
	require.NoError(t, err)
	braces := strings.NewReplacer("{NAME}", "NAME")
	for i, step := range []struct {
		operation, half string
		who             int
		lease           time.Duration
		more            string // a message that Redisson does not have
	}{
		{"lock", "read", 1, 0, ""},
		{"lock", "read", 2, time.Minute, ""},
		{"lock", "read", 3, 20 * time.Second, ""},
		{"unlock", "read", 3, 0, ""},
		{"unlock", "read", 2, 0, ""}, // the TTL falls to the longest lease that is left
		{"unlock", "read", 1, 0, ""},
		{"lock", "write", 4, 0, ""},
		{"unlock", "write", 4, 0, ""},
		{"lock", "write", 5, 0, ""},
		{"lock", "read", 5, time.Minute, ""}, // the holder of the write lock reads, too
		{"unlock", "read", 5, 0, ""},
		{"unlock", "write", 5, 0, ""},
		{"lock", "write", 6, 0, ""},
		{"lock", "read", 6, time.Minute, ""},
		{"unlock", "write", 6, 0, "redisson_rwlock:NAME=1"}, // downgrade
		{"unlock", "read", 6, 0, ""},
		{"lock", "read", 7, 0, ""},
		{"force", "write", 7, 0, ""},
		{"force", "read", 7, 0, ""},
		{"lock", "write", 8, 0, ""},
		{"force", "read", 8, 0, ""},
		{"force", "write", 8, 0, ""},
	} {
		var seen [2][]string
		for n, side := range sides {
			side.do(step.operation, step.half, step.who, step.lease)
			messages := messagesOf(t, p.Redis, pubsub, countSide{semaphore: side.name})
			for _, line := range append(side.seen(t, p.Redis), messages...) {
				seen[n] = append(seen[n], braces.Replace(line))
			}
		}
		if step.more != "" {
			seen[1] = append(seen[1], step.more)
		}
		require.Equal(t, seen[1], seen[0], "step %d: %s %s %d", i, step.operation, step.half, step.who)
	}
}

// Readers on one side compete with writers on the other, and writers with writers: each waiter is woken by the other side's message.
func TestWire_ReadersAndWritersContendWithRedisson(t *testing.T) {
	for who, halves := range map[string][2]string{
		"our readers, their writers": {"read", "write"}, "our writers, their readers": {"write", "read"}, "writers": {"write", "write"},
	} {
		t.Run(who, func(t *testing.T) {
			onReadWrite(t, func(t *testing.T, p *locktest.Place) {
				p, rounds := p.Plain(), locktest.Scaled(40, 5)
				rt, peer := p.Runtime(t, holdfast.Options{}), locktest.NewPeer(t, p)
				lock := rt.RWLock(p.Name)
				ours := map[string]*holdfast.Lock{"read": lock.Read(), "write": lock.Write()}[halves[0]]
				theirs := theirHalf(peer, p.Name, halves[1], 1)
				var waits []time.Duration
				for range rounds {
					require.NoError(t, theirs.Lock(t.Context(), 0))
					pending := ours.AcquireAsync(t.Context())
					p.WaitForWaiter(t, rt)
					locktest.Open(t, "our grant", pending.Done())
					start := time.Now()
					require.NoError(t, theirs.Unlock(t.Context()))
					lease := locktest.Granted(t, pending)
					waits = append(waits, time.Since(start))

					locked, err := theirHalf(peer, p.Name, halves[0], 2).IsLocked(t.Context())
					require.NoError(t, err)
					assert.True(t, locked, "Redisson sees its holder")
					held, err := theirs.TryLock(t.Context(), 0)
					require.NoError(t, err)
					require.False(t, held)
					answer := make(chan error, 1)
					go func() { answer <- theirs.Lock(t.Context(), 0) }()
					locktest.AwaitBlocked(t, peer, 1)
					locktest.Release(t, lease)
					require.NoError(t, <-answer)
					require.NoError(t, theirs.Unlock(t.Context()))
				}
				slices.Sort(waits)
				assert.Less(t, waits[rounds/2], 500*time.Millisecond, "woken by their messages")
				assert.Zero(t, peer.Wakeups().ByTTL, "woken by our messages")
				assert.Zero(t, peer.Malformed())
				assert.False(t, p.Exists(t))
			})
		})
	}
}

// When our writer releases the write lock, one message wakes all waiting readers, theirs and ours. This holds even if the writer continues as a
// reader. In that case, Redisson sends no message.
func TestWire_AllReadersAreWoken(t *testing.T) {
	for way, downgrade := range map[string]bool{"release": false, "downgrade": true} {
		t.Run(way, func(t *testing.T) {
			onReadWrite(t, func(t *testing.T, p *locktest.Place) {
				const readers = 8
				p = p.Plain()
				rt, other, peer := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{}), locktest.NewPeer(t, p)
				lock, owner := rt.RWLock(p.Name), rt.NewOwner()
				writer := locktest.Acquire(t, lock.Write(), holdfast.WithOwner(owner))
				var reader *holdfast.Lease
				if downgrade {
					reader = locktest.Acquire(t, lock.Read(), holdfast.WithOwner(owner))
				}
				ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
				defer cancel()
				var inside, all sync.WaitGroup // no reader leaves before all are in
				enter := func() {
					inside.Done()
					inside.Wait()
				}
				inside.Add(2 * readers)
				for thread := range readers {
					all.Go(func() {
						half := peer.RReadLock(p.Name, int64(thread))
						assert.NoError(t, half.Lock(ctx, 0))
						enter()
						assert.NoError(t, half.Unlock(ctx))
					})
					all.Go(func() {
						assert.NoError(t, other.RWLock(p.Name).Read().Do(ctx, func(context.Context) error { enter(); return nil }))
					})
				}
				p.WaitForWaiting(t, other, readers)
				locktest.AwaitBlocked(t, peer, readers)
				locktest.Release(t, writer)
				all.Wait()
				assert.Zero(t, peer.Wakeups().ByTTL)
				if downgrade {
					assert.True(t, reader.Valid())
					locktest.Release(t, reader)
				}
				assert.False(t, p.Exists(t))
			})
		})
	}
}

// Each side renews its own readers while the other side reads too. A release on one side does not end the leases of the other side.
func TestWire_ReadersBesideRedissons(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		p, lease := p.Plain(), locktest.Unhurried(900*time.Millisecond)
		rt := p.Runtime(t, holdfast.Options{Lease: lease})
		peer := locktest.NewPeerWith(t, p, redissonpeer.Config{Watchdog: lease})
		ours, theirs := locktest.Acquire(t, rt.RWLock(p.Name).Read()), peer.RReadLock(p.Name, 1)
		for range 2 { // Redisson counts a thread's holds, and has a key for each
			require.NoError(t, theirs.Lock(t.Context(), 0))
		}
		assert.Equal(t, map[string]string{ours.ID(): "1", theirs.Owner(): "2"}, p.Fields(t))
		locktest.Stays(t, "both are kept", 2*lease, func() bool { return ours.Valid() && len(p.TimeoutKeys(t)) == 3 })
		state, err := rt.RWLock(p.Name).Read().Inspect(t.Context())
		require.NoError(t, err)
		assert.ElementsMatch(t, []holdfast.Holder{{ID: ours.ID(), Holds: 1}, {ID: theirs.Owner(), Holds: 2}}, state.Holders)

		require.NoError(t, theirs.Unlock(t.Context()))
		locktest.Release(t, ours)
		refused(t, rt.RWLock(p.Name).Write())
		held, err := theirs.IsHeld(t.Context())
		require.NoError(t, err)
		assert.True(t, held)
		again := locktest.Acquire(t, rt.RWLock(p.Name).Read())
		require.NoError(t, theirs.Unlock(t.Context()))
		locktest.Stays(t, "our reader's lease stays valid", 2*lease, func() bool { return again.Valid() && p.Exists(t) })
		_, err = theirs.Release(t.Context(), redissonpeer.NewRequestID())
		require.NoError(t, err)
		assert.Equal(t, map[string]string{again.ID(): "1"}, p.Fields(t), "one release too many changes nothing")
		locktest.Release(t, again)
		assert.False(t, p.Exists(t))
	})
}

// If a Redisson client dies while it holds a read lock, our writers are blocked for at most the client's lease, even if our own readers renew their
// leases.
func TestWire_DeadReaderOfRedissons(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		lease := locktest.Unhurried(900 * time.Millisecond)
		stalls := locktest.WatchStalls(t, p)
		rt, other := p.Runtime(t, holdfast.Options{Lease: lease}), p.Runtime(t, holdfast.Options{})
		ours := locktest.Acquire(t, rt.RWLock(p.Name).Read())
		peer := redissonpeer.New(locktest.NewClient(t, p.Addr), redissonpeer.Config{Watchdog: lease})
		for thread := range int64(3) {
			require.NoError(t, peer.RReadLock(p.Name, thread).Lock(t.Context(), 0))
		}
		peer.Close() // it no longer renews
		dead := time.Now()
		locktest.Await(t, "the end of its keys", func() bool { return len(p.TimeoutKeys(t)) == 1 })
		assert.Less(t, time.Since(dead), lease+stalls.Slack(), "our renewals do not extend their leases")
		assert.True(t, ours.Valid())
		locktest.Release(t, ours)
		locktest.Release(t, locktest.Acquire(t, other.RWLock(p.Name).Write()))
		assert.False(t, p.Exists(t))
	})
}

// Redisson has two faults. If a writer acquires the read lock as well and releases it, Redisson stops renewing the writer's lease. And if a writer
// re-enters, Redisson adds up the leases. Holdfast does neither.
func TestWire_WhatRedissonsReadWriteLockDoesBadly(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		p, lease := p.Plain(), locktest.Unhurried(900*time.Millisecond)
		rt := p.Runtime(t, holdfast.Options{Lease: lease})
		peer := locktest.NewPeerWith(t, p, redissonpeer.Config{Watchdog: lease})
		theirs := p.Another(t)
		for _, half := range []string{"write", "write", "read"} {
			require.NoError(t, theirHalf(peer, theirs.Name, half, 1).Lock(t.Context(), time.Minute))
		}
		assert.Greater(t, p.Redis.PTTL(t.Context(), theirs.Name).Val(), time.Minute+30*time.Second)
		owner := rt.NewOwner()
		var leases []*holdfast.Lease
		for range 3 {
			leases = append(leases, locktest.Acquire(t, rt.RWLock(p.Name).Write(), holdfast.WithOwner(owner)))
			assert.LessOrEqual(t, p.Redis.PTTL(t.Context(), p.Name).Val(), lease)
		}
		locktest.Release(t, locktest.Acquire(t, rt.RWLock(p.Name).Read(), holdfast.WithOwner(owner)))
		locktest.Stays(t, "it is renewed", 2*lease, func() bool { return leases[0].Valid() && p.Exists(t) })
		for _, lease := range leases {
			locktest.Release(t, lease)
		}

		q := p.Another(t)
		write, read := peer.RWriteLock(q.Name, 1), peer.RReadLock(q.Name, 1)
		require.NoError(t, write.Lock(t.Context(), 0))
		require.NoError(t, read.Lock(t.Context(), 0))
		require.NoError(t, read.Unlock(t.Context()))
		locktest.Release(t, locktest.Acquire(t, rt.RWLock(q.Name).Write())) // Redisson's lease has expired without the writer noticing
		assert.ErrorIs(t, write.Unlock(t.Context()), redissonpeer.ErrNotHeld)
	})
}
