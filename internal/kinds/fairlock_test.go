package kinds_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() {
	childproc.Register("fair-crowd", fairCrowd)
	childproc.Register("fair-waiters", fairWaiters)
}

// childRuntime returns the lock that a child process of these tests uses. Its server, name and lease come from the environment.
func childRuntime(onEvent func(holdfast.Event)) *holdfast.Lock {
	lease, _ := time.ParseDuration(os.Getenv("LEASE"))
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("ADDR")})
	rt, err := holdfast.New(client, holdfast.Options{Lease: lease, Logger: locktest.Quiet(), OnEvent: onEvent})
	if err != nil {
		panic(err)
	}
	return rt.FairLock(os.Getenv("LOCK"))
}

// fairCrowd acquires and releases the lock with 8 goroutines. Its input is the total number of acquires.
func fairCrowd() {
	lock := childRuntime(nil)
	fmt.Println("ready")
	input := bufio.NewScanner(os.Stdin)
	input.Scan()
	each, _ := strconv.Atoi(input.Text())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range each / 8 {
				if err := lock.Do(context.Background(), func(context.Context) error { return nil }); err != nil {
					fmt.Println(err)
				}
			}
		})
	}
	all.Wait()
	fmt.Println("done")
}

// fairWaiters starts COUNT waiters at once, prints grants and lost places, and never releases the lock.
func fairWaiters() {
	lock := childRuntime(func(event holdfast.Event) {
		if _, lost := event.(holdfast.QueueLost); lost {
			fmt.Println("lost its place")
		}
	})
	count, _ := strconv.Atoi(os.Getenv("COUNT"))
	for range count {
		pending := lock.AcquireAsync(context.Background())
		go func() {
			if _, err := pending.Lease(); err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println("granted")
		}()
		defer runtime.KeepAlive(pending)
	}
	fmt.Println("waiting")
	bufio.NewScanner(os.Stdin).Scan()
}

// Four processes with eight waiters each are granted the lock in the order in which they entered Redis' queue.
func TestFairLock_GrantsInOrderOfQueueing(t *testing.T) {
	t.Parallel()
	const processes = 4
	grants := locktest.Scaled(5_000, 320)
	server := redistest.Start(t)
	name := redistest.Name(t)
	watched := watchFairness(t, server.Addr(), name)
	var children []*childproc.Handle
	for range processes {
		child := childproc.Run(t, "fair-crowd", "ADDR="+server.Addr(), "LOCK="+name, "LEASE=30s")
		require.Equal(t, "ready", child.Line())
		children = append(children, child)
	}
	for _, child := range children {
		child.Send("%d\n", grants/processes)
	}
	for _, child := range children {
		line, err := child.ReadLine(2 * time.Minute)
		require.NoError(t, err)
		require.Equal(t, "done", line)
	}
	queued, granted := watched()
	t.Logf("%d grants, %d of them to waiters in the queue", len(granted), len(queued))
	assert.Len(t, granted, grants/processes/8*8*processes)
	assert.Greater(t, len(queued), len(granted)/2, "more than half of the acquires had to queue")
	served := slices.DeleteFunc(granted, func(owner string) bool { return !slices.Contains(queued, owner) })
	assert.Equal(t, queued, served)
}

var monitored = regexp.MustCompile(`lua\] "(rpush|hset)" "([^"]*)" "([^"]*:\d+)"`)

// watchFairness monitors the server's commands. The function that it returns gives two lists, each in order: the owners that entered the queue, and
// the owners that were granted the lock.
func watchFairness(t *testing.T, addr, name string) func() (queued, granted []string) {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(t, err)
	lines := bufio.NewScanner(conn)
	require.True(t, lines.Scan())
	var queued, granted []string
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() && !strings.Contains(lines.Text(), `"end of `+name) {
			found := monitored.FindStringSubmatch(lines.Text())
			switch {
			case found == nil:
			case found[1] == "rpush" && found[2] == redissonpeer.FairQueueKey(name):
				queued = append(queued, found[3])
			case found[1] == "hset" && found[2] == name:
				granted = append(granted, found[3])
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-ended })
	return func() ([]string, []string) {
		require.NoError(t, locktest.NewClient(t, addr).Echo(t.Context(), "end of "+name).Err())
		locktest.Closed(t, "the monitor", ended)
		return queued, granted
	}
}

// A newcomer behind a hundred dead waiters waits for less than two of their leases. It does not wait for a hundred leases, one after the other.
func TestFairLock_DeadWaitersAreDropped(t *testing.T) {
	t.Parallel()
	lease := locktest.Unhurried(time.Second)
	server := redistest.Start(t)
	name := redistest.Name(t)
	rt := locktest.NewRuntime(t, server.Client(t), holdfast.Options{Lease: lease})
	holder := locktest.Acquire(t, rt.FairLock(name))
	child := childproc.Run(t, "fair-waiters", "ADDR="+server.Addr(), "LOCK="+name, "LEASE="+lease.String(), "COUNT=100")
	require.Equal(t, "waiting", child.Line())
	locktest.Await(t, "the queue", func() bool {
		state, err := rt.FairLock(name).Inspect(t.Context())
		return err == nil && len(state.Queue) == 100
	})
	child.Kill()
	start := time.Now()
	locktest.Release(t, holder)
	locktest.Release(t, locktest.Acquire(t, rt.FairLock(name)))
	took := time.Since(start)
	t.Logf("a newcomer waited %v behind 100 dead waiters", took)
	assert.Less(t, took, 2*lease)
	assert.Zero(t, server.Client(t).DBSize(t.Context()).Val(), "nothing is left of the dead waiters")
}

// A waiter is stopped for so long that it loses its place. When it continues, it queues again and reports the loss.
func TestFairLock_StoppedWaiterQueuesAgain(t *testing.T) {
	t.Parallel()
	lease := locktest.Unhurried(500 * time.Millisecond)
	server := redistest.Start(t)
	name := redistest.Name(t)
	rt := locktest.NewRuntime(t, server.Client(t), holdfast.Options{Lease: lease})
	holder := locktest.Acquire(t, rt.FairLock(name))
	child := childproc.Run(t, "fair-waiters", "ADDR="+server.Addr(), "LOCK="+name, "LEASE="+lease.String(), "COUNT=1")
	require.Equal(t, "waiting", child.Line())
	queue := func() []string {
		state, err := rt.FairLock(name).Inspect(t.Context())
		require.NoError(t, err)
		return state.Queue
	}
	locktest.Await(t, "the waiter to be in the queue, and subscribed", func() bool {
		// The two channels are the waiter's own channel and the channel for releases of other kinds.
		return len(queue()) == 1 && len(server.Client(t).PubSubChannels(t.Context(), "*").Val()) == 2
	})
	require.NoError(t, child.Stop())
	locktest.Release(t, holder)
	holder = locktest.Acquire(t, rt.FairLock(name)) // granted once the stopped waiter counts as dead
	assert.Empty(t, queue())
	require.NoError(t, child.Cont())
	require.Equal(t, "lost its place", child.Line())
	locktest.Release(t, holder)
	require.Equal(t, "granted", child.Line())
}

// A Redisson client whose clock is an hour ahead considers our waiters dead and removes them from the queue. They queue again and get the lock.
func TestFairLock_SkewedPeer(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "fair lock")
	var events locktest.Recorder
	rt := p.Runtime(t, holdfast.Options{OnEvent: events.Record})
	peer := locktest.NewPeerWith(t, p, redissonpeer.Config{ClockAhead: time.Hour})
	theirs := peer.RFairLock(p.Name, 1)
	require.NoError(t, theirs.Lock(t.Context(), 0))
	pending := p.Lock(rt).AcquireAsync(t.Context())
	p.WaitForWaiter(t, rt)
	held, err := peer.RFairLock(p.Name, 2).TryLock(t.Context(), 0) // this call removes our waiters from the queue
	require.NoError(t, err)
	require.False(t, held)
	locktest.Await(t, "its place again", func() bool { return len(locktest.Recorded[holdfast.QueueLost](&events)) == 1 })
	require.NoError(t, theirs.Unlock(t.Context()))
	lease, err := pending.Lease()
	require.NoError(t, err)
	locktest.Release(t, lease)
}

// After a failover, the queue may again contain the place of a waiter that was already granted the lock or has left the queue. Such a place blocks
// no other waiter, even while the process of its former waiter is alive.
func TestFairLock_PlaceThatCameBackIsLeft(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		for _, who := range []*holdfast.Runtime{rt, other} {
			lease := locktest.Acquire(t, other.FairLock(p.Name))
			pending := rt.FairLock(p.Name).AcquireAsync(t.Context())
			queue, scores := "redisson_lock_queue:{"+p.Name+"}", "redisson_lock_timeout:{"+p.Name+"}"
			locktest.Await(t, "the waiter", func() bool { return p.Redis.LLen(t.Context(), queue).Val() == 1 })
			ghost := who.ID() + ":1"
			require.NoError(t, p.Redis.LPush(t.Context(), queue, ghost).Err())
			require.NoError(t, p.Redis.ZAdd(t.Context(), scores, redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: ghost}).Err())
			others := other.FairLock(p.Name).AcquireAsync(t.Context())
			locktest.Release(t, lease)
			for _, pending := range []*holdfast.Pending{pending, others} {
				locktest.Closed(t, "the next grant", pending.Done())
				next, err := pending.Lease()
				require.NoError(t, err)
				locktest.Release(t, next)
			}
			assert.False(t, p.Redis.Exists(t.Context(), queue, scores).Val() > 0)
		}
	})
}

// A waiter that gives up at the head of the queue, just when the lock becomes free, wakes the waiter behind it.
func TestFairLock_LeavingHeadWakesTheNext(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "fair lock")
	holder := p.Runtime(t, holdfast.Options{})
	first, proxy := p.Proxied(t, holdfast.Options{})
	second := p.Runtime(t, holdfast.Options{})
	var waits []time.Duration
	for range 9 {
		lease := locktest.Acquire(t, p.Lock(holder))
		ahead := p.Lock(first).AcquireAsync(t.Context())
		p.WaitForWaiter(t, first)
		behind := p.Lock(second).AcquireAsync(t.Context())
		locktest.Await(t, "two in the queue", func() bool {
			state, err := p.Lock(holder).Inspect(t.Context())
			return err == nil && len(state.Queue) == 2
		})
		proxy.Blackhole(true) // so the head is not told that it is next
		locktest.Release(t, lease)
		proxy.Blackhole(false)
		start := time.Now()
		ahead.Cancel()
		if lease, err := ahead.Lease(); err == nil {
			locktest.Release(t, lease) // the head was granted the lock before its cancel
		}
		lease, err := behind.Lease()
		require.NoError(t, err)
		waits = append(waits, time.Since(start))
		locktest.Release(t, lease)
	}
	slices.Sort(waits)
	t.Logf("waits after the head had left: %v", waits)
	assert.Less(t, waits[len(waits)/2], 500*time.Millisecond, "woken, not by the fallback")
}

// Scores follow Redisson's arithmetic, whether the waiters are ours or Redisson's.
func TestFairLock_ScoresAreRedissons(t *testing.T) {
	t.Parallel()
	const fairWait = 5 * time.Minute
	p := locktest.PlaceOf(t, "fair lock")
	rt, peer := p.Runtime(t, holdfast.Options{}), locktest.NewPeer(t, p)
	holder := locktest.Acquire(t, p.Lock(rt))
	began := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	other := p.Runtime(t, holdfast.Options{})
	for i := range 4 {
		all.Go(func() {
			if i%2 == 0 {
				_, _ = p.Lock(other).Acquire(ctx)
			} else {
				_ = peer.RFairLock(p.Name, int64(i)).Lock(ctx, 0)
			}
		})
		locktest.Await(t, "the queue", func() bool {
			return p.Redis.LLen(ctx, redissonpeer.FairQueueKey(p.Name)).Val() == int64(i+1)
		})
	}
	scores := p.Redis.ZRangeWithScores(ctx, redissonpeer.FairTimeoutKey(p.Name), 0, -1).Val()
	require.Len(t, scores, 4)
	queue := p.Redis.LRange(ctx, redissonpeer.FairQueueKey(p.Name), 0, -1).Val()
	first := time.UnixMilli(int64(scores[0].Score))
	assert.WithinDuration(t, began.Add(30*time.Second+fairWait), first, 5*time.Second, "the holder's TTL and its own wait")
	for i := range scores {
		assert.Equal(t, queue[i], scores[i].Member)
		if i > 0 {
			assert.InDelta(t, fairWait.Milliseconds(), scores[i].Score-scores[i-1].Score, 2, "each one fairWait after the one before it")
		}
	}
	locktest.Release(t, holder)
}

// When very many waiters of a process give up at once, they leave the queue together. Otherwise Redis would move up the remaining waiters once for
// each waiter that leaves, and the release of the lock, which comes after these calls, would arrive after the end of the lease.
func TestFairLock_ManyGiveUpAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rt := locktest.NewRuntime(t, server.Client(t), holdfast.Options{})
	const waiters = 2000
	lock := rt.FairLock(t.Name())
	held := locktest.Acquire(t, lock)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			_, err := lock.Acquire(ctx)
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	client := server.Client(t)
	queued := func() int64 { return client.LLen(t.Context(), "redisson_lock_queue:{"+t.Name()+"}").Val() }
	locktest.Await(t, "all of them queue", func() bool { return queued() == waiters })
	before := server.CommandStats(t, "lrange")["lrange"]

	cancel()
	all.Wait()
	locktest.Release(t, held)
	locktest.Await(t, "the queue is empty", func() bool { return queued() == 0 })
	assert.Less(t, server.CommandStats(t, "lrange")["lrange"]-before, int64(waiters/4), "each moves up all the waiters behind those that have left")
}
