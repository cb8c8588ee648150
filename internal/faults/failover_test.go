package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// fleet is a Redis setup in which a killed master is replaced.
type fleet struct {
	client   func(t *testing.T) redis.UniversalClient
	master   func(key string) *redistest.Server
	failOver func(key string)
	restore  func()
}

var fleets = map[string]func(t *testing.T) fleet{
	"sentinel": func(t *testing.T) fleet {
		g := redistest.StartGuarded(t, time.Second)
		return fleet{
			client:   func(t *testing.T) redis.UniversalClient { return g.Client(t) },
			master:   func(string) *redistest.Server { return g.Master() },
			failOver: func(string) { g.FailOver() }, restore: g.Restore,
		}
	},
	"cluster": func(t *testing.T) fleet {
		c := redistest.StartCluster(t, 3, 1, time.Second)
		return fleet{
			client:   func(t *testing.T) redis.UniversalClient { return locktest.ClusterClient(t, c) },
			master:   c.Owner,
			failOver: c.FailOver, restore: c.Restore,
		}
	},
}

const (
	failoverLease = 3 * time.Second
	// failoverSlot is the slot of all locks under load: in a cluster, all of them are on the master that is killed.
	failoverSlot = 1000
	// servedWithin bounds the time after a failover until everybody has been granted the lock or refused.
	servedWithin = 5 * time.Second
)

// TestFault_MasterFailsOver kills the master under load, again and again. Soon after, each waiter is granted the lock or refused. In the end every
// waiter, readers among them, gets the lock. A holder whose lock has vanished learns of the loss within a renewal interval, and tokens keep
// growing. Replication is asynchronous, so a failover may forget a grant that was being replicated. Then there are two holders, which the test
// counts.
func TestFault_MasterFailsOver(t *testing.T) {
	t.Parallel()
	for name, start := range fleets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &failover{fleet: start(t), ended: make(chan struct{})}
			f.load(t)
			for range locktest.Scaled(10, 1) {
				f.round(t)
			}
			f.judge(t)
		})
	}
}

// failover is load on a fleet, by two processes.
type failover struct {
	fleet
	runtimes []*holdfast.Runtime
	crews    []*crew
	ended    chan struct{}
	group    sync.WaitGroup
	lost     int             // leases lost over all rounds
	took     []time.Duration // until all callers had an answer again
}

// crew is a group of goroutines that want the same lock, with a record of what they got.
type crew struct {
	kind  string
	name  string
	spans locktest.Spans

	excludes *locktest.Spans // if set, no span of the crew overlaps one of these; if nil, no two spans of the crew overlap

	mu      sync.Mutex
	tokens  []int64
	answers []int // grants and errors, by member
	grants  []int // by member
	starved []int // members that waited for locktest.Patience in vain
}

func (f *failover) load(t *testing.T) {
	for _, linger := range []time.Duration{0, failoverLease / 8} {
		f.runtimes = append(f.runtimes, locktest.NewRuntime(t, f.client(t), holdfast.Options{Lease: failoverLease, Linger: linger}))
	}
	for _, kind := range locktest.Kinds {
		f.start(kind.Name, nameIn(t, failoverSlot), kind.Lock)
	}
	mixed := nameIn(t, failoverSlot)
	writers := f.start("write lock with readers", mixed, func(rt *holdfast.Runtime, name string) *holdfast.Lock { return rt.RWLock(name).Write() })
	readers := f.start("read lock with writers", mixed, func(rt *holdfast.Runtime, name string) *holdfast.Lock { return rt.RWLock(name).Read() })
	readers.excludes = &writers.spans
	t.Cleanup(f.end)
}

// start starts a crew with two members in each process.
func (f *failover) start(kind, name string, of func(rt *holdfast.Runtime, name string) *holdfast.Lock) *crew {
	members := 2 * len(f.runtimes)
	c := &crew{kind: kind, name: name, answers: make([]int, members), grants: make([]int, members)}
	f.crews = append(f.crews, c)
	for i := range members {
		lock := of(f.runtimes[i%len(f.runtimes)], name)
		f.group.Go(func() { c.work(lock, i, f.ended) })
	}
	return c
}

func (f *failover) end() {
	select {
	case <-f.ended:
	default:
		close(f.ended)
	}
	f.group.Wait()
}

// work takes the lock for a moment, again and again.
func (c *crew) work(lock *holdfast.Lock, member int, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-time.After(5 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
		lease, err := lock.Acquire(ctx)
		late := ctx.Err() != nil
		cancel()
		c.mu.Lock()
		c.answers[member]++
		switch {
		case err == nil:
			c.grants[member]++
			c.tokens = append(c.tokens, lease.Token())
		case late:
			c.starved = append(c.starved, member)
		}
		c.mu.Unlock()
		if err == nil {
			c.spans.Hold(lease, 2*time.Millisecond)
			_ = lease.Release(context.Background()) // the lease may have been lost
		}
	}
}

// round holds locks over a failover.
func (f *failover) round(t *testing.T) {
	client := f.client(t)
	var held []*holdfast.Lease
	for range 20 {
		held = append(held, locktest.Acquire(t, f.runtimes[0].Lock(redistest.Name(t))))
	}
	f.failOver(f.crews[0].name)
	over := time.Now()
	answered := f.onceMore(t, "an answer", func(c *crew) []int { return c.answers })
	granted := f.onceMore(t, "a grant", func(c *crew) []int { return c.grants })
	answered()
	f.took = append(f.took, time.Since(over))
	locktest.Await(t, "holders to know", func() bool {
		return !slices.ContainsFunc(held, func(lease *holdfast.Lease) bool {
			return lease.Valid() && client.HExists(t.Context(), lease.Name(), lease.ID()).Val() != true
		})
	})
	assert.Less(t, time.Since(over), servedWithin+failoverLease/3+locktest.Slack(), "holders learn of their losses within a renewal interval")
	for _, lease := range held {
		if lease.Valid() {
			assert.NoError(t, lease.Release(t.Context()))
		} else {
			f.lost++
		}
	}
	granted()
	f.restore()
}

// onceMore notes a count of every member of every crew. The function that it returns waits until each of these counts has grown.
func (f *failover) onceMore(t *testing.T, what string, counts func(c *crew) []int) (wait func()) {
	now := func(c *crew) []int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Clone(counts(c))
	}
	var before [][]int
	for _, c := range f.crews {
		before = append(before, now(c))
	}
	return func() {
		for i, c := range f.crews {
			for member, n := range before[i] {
				locktest.Await(t, fmt.Sprintf("%s for member %d of those who want a %s", what, member, c.kind), func() bool { return now(c)[member] > n })
			}
		}
	}
}

func (f *failover) judge(t *testing.T) {
	f.end()
	slices.Sort(f.took)
	t.Logf("%d failovers: all callers had an answer %v after the new master took over, at most %v; %d of %d held leases lost",
		len(f.took), f.took[len(f.took)/2], f.took[len(f.took)-1], f.lost, 20*len(f.took))
	assert.Less(t, f.took[len(f.took)-1], servedWithin+locktest.Slack())
	for _, c := range f.crews {
		overlaps := c.spans.Overlaps()
		if c.excludes != nil {
			overlaps = c.spans.Meets(c.excludes)
		}
		t.Logf("%s: held %d times, granted %v of %v answers, two holders %d times", c.kind, c.spans.Len(), c.grants, c.answers, len(overlaps))
		assert.Positive(t, c.spans.Len())
		assert.Empty(t, c.starved, "members that starved")
		assert.LessOrEqual(t, len(overlaps), len(f.took), "at most one lost grant in each failover")
		if c.tokens[0] != 0 && len(overlaps) == 0 {
			assert.IsIncreasing(t, c.tokens)
		}
	}
	require.NotEmpty(t, f.crews)
}
