package kinds_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func init() { childproc.Register("readers", readUntilKilled) }

// readUntilKilled holds two read leases, a renewed one and a fixed one, until its process is killed.
func readUntilKilled() {
	lease, _ := time.ParseDuration(os.Getenv("LEASE"))
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("ADDR")})
	rt, err := holdfast.New(client, holdfast.Options{Lease: lease, Logger: locktest.Quiet()})
	if err != nil {
		panic(err)
	}
	for _, options := range [][]holdfast.AcquireOption{nil, {holdfast.WithLease(lease)}} {
		lease, err := rt.RWLock(os.Getenv("LOCK")).Read().Acquire(context.Background(), options...)
		if err != nil {
			panic(err)
		}
		defer runtime.KeepAlive(lease)
	}
	fmt.Println("held")
	bufio.NewScanner(os.Stdin).Scan()
}

func TestRWLock_FixedReaderEndsForItselfAlone(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		lock := rt.RWLock(p.Name)
		kept, there := locktest.Acquire(t, lock.Read()), locktest.Acquire(t, other.RWLock(p.Name).Read())
		fixed := locktest.Acquire(t, lock.Read(), holdfast.WithLease(300*time.Millisecond))
		assert.ErrorIs(t, kept.Extend(t.Context(), time.Minute), holdfast.ErrInvalid)
		locktest.Closed(t, "the end of the fixed lease", fixed.Done())
		assert.ErrorIs(t, fixed.Err(), holdfast.ErrLeaseLost)
		locktest.Await(t, "the end of its key", func() bool { return len(p.TimeoutKeys(t)) == 2 })
		assert.True(t, kept.Valid() && there.Valid())
		refused(t, other.RWLock(p.Name).Write())
		assert.InDelta(t, 30, p.Redis.PTTL(t.Context(), p.Name).Val().Seconds(), 10)
		locktest.Release(t, kept)
		locktest.Release(t, there)
		assert.False(t, p.Exists(t), "the field that it has left behind blocks nobody")
	})
}

// The lock lives as long as its longest reader: a longer lease raises the TTL, and the TTL falls when the longest reader ends.
func TestRWLock_LivesAsLongAsItsLongestReader(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		lease := locktest.Unhurried(900 * time.Millisecond)
		rt, other := p.Runtime(t, holdfast.Options{Lease: lease}), p.Runtime(t, holdfast.Options{})
		lock := rt.RWLock(p.Name)
		ttl := func() time.Duration { return p.Redis.PTTL(t.Context(), p.Name).Val() }
		long := locktest.Acquire(t, lock.Read(), holdfast.WithLease(time.Minute))
		kept := locktest.Acquire(t, lock.Read())
		short := locktest.AcquireBriefly(t, lock.Read())
		locktest.Stays(t, "no acquire and no renewal shortens it", 3*lease/2, func() bool { return kept.Valid() && ttl() > 30*time.Second })
		assert.False(t, short.Valid())

		require.NoError(t, long.Extend(t.Context(), 10*time.Second))
		assert.LessOrEqual(t, ttl(), 10*time.Second)
		require.NoError(t, long.Extend(t.Context(), time.Hour))
		assert.Greater(t, ttl(), 50*time.Minute)
		locktest.Release(t, long)
		assert.LessOrEqual(t, ttl(), lease)
		locktest.Stays(t, "the other is renewed", 3*lease/2, func() bool { return kept.Valid() && p.Exists(t) })
		refused(t, other.RWLock(p.Name).Write())
		locktest.Release(t, kept)
		assert.False(t, p.Exists(t))

		owner := rt.NewOwner()
		writer := locktest.Acquire(t, lock.Write(), holdfast.WithOwner(owner))
		reader := locktest.Acquire(t, lock.Read(), holdfast.WithOwner(owner), holdfast.WithLease(time.Minute))
		locktest.Stays(t, "a writer's renewal does not shorten it either", 3*lease/2, func() bool { return writer.Valid() && ttl() > 30*time.Second })
		locktest.Release(t, writer)
		assert.Greater(t, ttl(), 30*time.Second)
		assert.True(t, reader.Valid())
		locktest.Release(t, reader)
		assert.False(t, p.Exists(t))
	})
}

// A reader that is killed blocks writers for at most its lease, whether or not there are other readers.
func TestRWLock_DeadReaderBlocksForItsLeaseAtMost(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		lease := locktest.Unhurried(time.Second)
		stalls := locktest.WatchStalls(t, p)
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		die := func() time.Time {
			child := childproc.Run(t, "readers", "ADDR="+p.Addr, "LOCK="+p.Name, "LEASE="+lease.String())
			require.Equal(t, "held", child.Line())
			child.Kill()
			return time.Now()
		}
		waiting := func() *holdfast.Pending {
			pending := other.RWLock(p.Name).Write().AcquireAsync(t.Context())
			p.WaitForWaiting(t, other, 1)
			return pending
		}

		dead := die()
		locktest.Release(t, locktest.Granted(t, waiting()))
		took := time.Since(dead)
		t.Logf("alone: the writer got the lock %v after the reader's death", took)
		assert.Less(t, took, 2*lease+stalls.Slack())

		// The fields of the dead readers stay in Redis after the end of their leases. Even so, the release of the only living reader wakes the
		// writer.
		living := locktest.Acquire(t, rt.RWLock(p.Name).Read())
		die()
		pending := waiting()
		locktest.Await(t, "the end of the dead one's keys", func() bool { return len(p.TimeoutKeys(t)) == 1 })
		assert.Len(t, p.Fields(t), 3, "it has left its fields")
		locktest.Open(t, "the writer's grant", pending.Done())
		assert.True(t, living.Valid())
		stalls.Take()
		released := time.Now()
		locktest.Release(t, living)
		writer := locktest.Granted(t, pending)
		assert.Less(t, time.Since(released), 500*time.Millisecond+stalls.Slack(), "woken")
		locktest.Release(t, writer)

		// If the living reader ends first, the lock expires with the leases of the dead readers.
		living = locktest.Acquire(t, rt.RWLock(p.Name).Read())
		dead = die()
		locktest.Release(t, living)
		assert.LessOrEqual(t, p.Redis.PTTL(t.Context(), p.Name).Val(), lease)
		locktest.Release(t, locktest.Acquire(t, other.RWLock(p.Name).Write()))
		assert.Less(t, time.Since(dead), 2*lease+stalls.Slack())
		assert.False(t, p.Exists(t))
	})
}

// The watchdog renews only what its own process holds: the leases of a dead client are not kept alive by others.
func TestRWLock_WatchdogRenewsItsOwnAlone(t *testing.T) {
	onReadWrite(t, func(t *testing.T, p *locktest.Place) {
		lease := locktest.Unhurried(900 * time.Millisecond)
		rt := p.Runtime(t, holdfast.Options{Lease: lease})
		kept := locktest.Acquire(t, rt.RWLock(p.Name).Read())
		peer := locktest.Stranger(1)
		require.NoError(t, p.Redis.HSet(t.Context(), p.Name, peer, 2).Err())
		foreign := []string{p.TimeoutKey(peer), "{" + p.Name + "}:" + peer + ":rwlock_timeout:2"}
		for _, key := range foreign {
			require.NoError(t, p.Redis.Set(t.Context(), key, 1, 2*lease).Err())
		}
		left := map[string]time.Duration{foreign[0]: 2 * lease, foreign[1]: 2 * lease}
		locktest.Stays(t, "the watchdog renews only its own leases", 5*lease/2, func() bool {
			for _, key := range foreign {
				ttl := p.Redis.PTTL(t.Context(), key).Val()
				assert.LessOrEqual(t, ttl, left[key])
				left[key] = max(ttl, 0)
			}
			return kept.Valid() && p.Exists(t)
		})
		assert.Len(t, p.TimeoutKeys(t), 1)
		assert.Equal(t, map[string]string{kept.ID(): "1", peer: "2"}, p.Fields(t))
		locktest.Release(t, kept)
		assert.False(t, p.Exists(t))
	})
}

// A writer gets the lock although readers acquire and release it without a pause. If the readers are in the writer's process, that process serves
// readers and writers in order of arrival. If the readers are in another process, they keep the writer out for as long as their holds overlap, by
// Redisson's rules. But whenever no reader has the lock, new readers let the waiting writer go first.
func TestRWLock_WritersAreNotStarved(t *testing.T) {
	for where, elsewhere := range map[string]bool{"same process": false, "another process": true} {
		t.Run(where, func(t *testing.T) {
			onReadWrite(t, func(t *testing.T, p *locktest.Place) {
				stalls := locktest.WatchStalls(t, p)
				rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
				if !elsewhere {
					other = rt
				}
				ctx, stop := context.WithCancel(t.Context())
				var readers sync.WaitGroup
				defer readers.Wait()
				defer stop()
				read := func() {
					_ = rt.RWLock(p.Name).Read().Do(ctx, func(context.Context) error {
						<-time.After(time.Millisecond)
						return nil
					})
				}
				stream := func(in int) {
					for ctx.Err() == nil {
						var batch sync.WaitGroup
						for range in {
							batch.Go(read)
						}
						batch.Wait()
					}
				}
				if elsewhere {
					readers.Go(func() { stream(8) })
				} else {
					for range 8 {
						readers.Go(func() { stream(1) })
					}
				}
				var waits []time.Duration
				for range 20 {
					start := time.Now()
					locktest.Release(t, locktest.Acquire(t, other.RWLock(p.Name).Write()))
					waits = append(waits, time.Since(start))
				}
				slices.Sort(waits)
				t.Logf("a writer waited %v, %v at most", waits[len(waits)/2], waits[len(waits)-1])
				assert.Less(t, waits[len(waits)/2], 300*time.Millisecond+stalls.Take(), "woken by a message, not by polling")
			})
		})
	}
}
