package faults_test

import (
	"context"
	"fmt"
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
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Many callers want random subsets of a few locks on two servers, while the links to them break in every possible way. There are never two valid
// holders of one name, no caller is stuck, and no key is left.
func TestFault_MultiLocksOverBrokenLinks(t *testing.T) {
	t.Parallel()
	const lease, processes, callers = 400 * time.Millisecond, 3, 3
	c := &crossing{ended: make(chan struct{})}
	for range 2 {
		c.servers = append(c.servers, redistest.Start(t))
	}
	for range 6 {
		c.names, c.spans = append(c.names, redistest.Name(t)), append(c.spans, &locktest.Spans{})
	}
	var group sync.WaitGroup
	wins := make([]atomic.Int64, processes*callers)
	for i := range processes {
		locks := c.process(t, holdfast.Options{Lease: lease})
		for k := range callers {
			group.Go(func() { c.drive(locks, lease, &wins[i*callers+k]) })
		}
	}
	c.disturb(t, time.Duration(locktest.Scaled(60, 3))*time.Second, lease)

	during, since := total(wins), make([]int64, len(wins))
	for i := range wins {
		since[i] = wins[i].Load()
	}
	locktest.Await(t, "every caller to be served once the links work again", func() bool {
		for i := range wins {
			if wins[i].Load() == since[i] {
				return false
			}
		}
		return true
	})
	close(c.ended)
	group.Wait()
	t.Logf("acquired %d times, %d of them while links were broken", total(wins), during)
	for i, spans := range c.spans {
		assert.Empty(t, spans.Overlaps(), "lock %d", i)
	}
	for _, server := range c.servers {
		client := server.Client(t)
		locktest.Await(t, "nothing to be left", func() bool { return len(locktest.Keys(t, client)) == 0 })
	}
}

// crossing is several processes whose callers contend for the same locks, of all kinds, on several servers.
type crossing struct {
	servers []*redistest.Server
	proxies []*faultproxy.Proxy
	names   []string
	spans   []*locktest.Spans
	ended   chan struct{}
}

// process returns the locks as seen by one new process, which has a runtime for each server, each through its own proxy.
func (c *crossing) process(t *testing.T, options holdfast.Options) (locks []*holdfast.Lock) {
	var runtimes []*holdfast.Runtime
	for _, server := range c.servers {
		proxy := faultproxy.New(t, server.Addr())
		runtimes = append(runtimes, locktest.NewRuntime(t, locktest.NewClient(t, proxy.Addr()), options))
		t.Cleanup(proxy.Heal)
		c.proxies = append(c.proxies, proxy)
	}
	for i, name := range c.names {
		locks = append(locks, locktest.Kinds[i%len(locktest.Kinds)].Lock(runtimes[i%len(runtimes)], name))
	}
	return locks
}

// drive acquires random subsets of the locks in random order and in various ways, until the end.
func (c *crossing) drive(locks []*holdfast.Lock, fixed time.Duration, wins *atomic.Int64) {
	for {
		select {
		case <-c.ended:
			return
		default:
		}
		which := rand.Perm(len(locks))[:1+rand.IntN(4)]
		var some []*holdfast.Lock
		for _, i := range which {
			some = append(some, locks[i])
		}
		ctx, cancel := context.WithTimeout(context.Background(), rand.N(2*time.Second))
		lease, err := acquireSomehow(ctx, some, fixed)
		if err == nil {
			c.hold(lease, which)
			wins.Add(1)
			_ = lease.Release(ctx) // the lease may have been lost
		}
		cancel()
	}
}

func acquireSomehow(ctx context.Context, locks []*holdfast.Lock, fixed time.Duration) (*holdfast.Lease, error) {
	multi := holdfast.Multi(locks...)
	switch way := rand.IntN(6); {
	case way == 0:
		return multi.TryAcquire(ctx)
	case way == 1:
		return multi.Acquire(ctx, holdfast.WithLease(fixed))
	case way == 2:
		return multi.Acquire(ctx, holdfast.WithWait(rand.N(100*time.Millisecond)+1))
	case len(locks) == 1:
		return locks[0].Acquire(ctx)
	}
	return multi.Acquire(ctx)
}

// hold records, for each lock that the lease covers, how long the lease was valid.
func (c *crossing) hold(lease *holdfast.Lease, which []int) {
	length := rand.N(5 * time.Millisecond)
	if rand.IntN(50) == 0 {
		length = time.Second // through a few renewals
	}
	var group sync.WaitGroup
	for _, i := range which {
		group.Go(func() { c.spans[i].Hold(lease, length) })
	}
	group.Wait()
}

func total(wins []atomic.Int64) (sum int64) {
	for i := range wins {
		sum += wins[i].Load()
	}
	return sum
}

// disturb breaks one random link after another until d has passed. At most one link is broken at a time, and for about a third of the time none is.
// When disturb returns, all links work.
func (c *crossing) disturb(t *testing.T, d, lease time.Duration) {
	seed := rand.Uint64()
	t.Logf("seed of the faults: %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for end := time.Now().Add(d); time.Now().Before(end); {
		proxy := c.proxies[random.IntN(len(c.proxies))]
		proxy.Disturb(random, lease/4)
		<-time.After(time.Duration(random.Int64N(int64(lease))))
		proxy.Heal()
		<-time.After(time.Duration(random.Int64N(int64(lease / 2))))
	}
}

// The acquire of a member may reach its server after the caller has given up, and even after the other members were released. Such an acquire is
// undone, too.
func TestFault_RedLockUndoesLateMembers(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			const servers = 5
			var locks []*holdfast.Lock
			var proxies []*faultproxy.Proxy
			shared, name := redistest.Shared(t), redistest.Name(t)
			for i := range servers {
				proxy := faultproxy.New(t, shared.Addr())
				rt := locktest.NewRuntime(t, locktest.NewClient(t, proxy.Addr()), holdfast.Options{Lease: time.Hour})
				t.Cleanup(proxy.Heal)
				locks, proxies = append(locks, kind.Lock(rt, fmt.Sprintf("%s-%d", name, i))), append(proxies, proxy)
			}
			red, client := holdfast.Red(locks...), shared.Client(t)
			left := func() int { return len(client.Keys(t.Context(), name+"-*").Val()) }
			acquired := 0
			for range locktest.Scaled(60, 5) {
				for _, proxy := range proxies {
					proxy.Delay(faultproxy.Direction(rand.IntN(2)), rand.N(800*time.Millisecond))
				}
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(time.Second))
				lease, err := red.TryAcquire(ctx)
				cancel()
				for _, proxy := range proxies {
					proxy.Heal()
				}
				if err == nil {
					acquired++
					assert.GreaterOrEqual(t, left(), servers/2+1)
					require.NoError(t, lease.Release(t.Context()))
				}
				locktest.Await(t, "nothing to be left, an hour before the leases end", func() bool { return left() == 0 })
			}
			t.Logf("acquired %d times", acquired)
		})
	}
}
