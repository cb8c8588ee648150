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
	// servedWithin bounds the time after a failover until everybody has been served or refused.
	servedWithin = 5 * time.Second
)

// TestFault_MasterFailsOver kills the master under load, again and again. Waiters are served or refused soon after, a holder whose lock has
// vanished learns of the loss within a renewal interval, and tokens keep growing. Replication is asynchronous, so a failover may forget a grant
// that was being replicated. Then there are two holders, which the test counts.
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
	took     []time.Duration // until everybody was served again
}

// crew is the goroutines that want one lock, and what they got.
type crew struct {
	kind  string
	name  string
	spans locktest.Spans

	mu     sync.Mutex
	tokens []int64
	served []int // by member
	errors int
}

func (f *failover) load(t *testing.T) {
	for _, linger := range []time.Duration{0, failoverLease / 8} {
		f.runtimes = append(f.runtimes, locktest.NewRuntime(t, f.client(t), holdfast.Options{Lease: failoverLease, Linger: linger}))
	}
	for _, kind := range locktest.Kinds {
		c := &crew{kind: kind.Name, name: redistest.Name(t), served: make([]int, 2*len(f.runtimes))}
		f.crews = append(f.crews, c)
		for i := range c.served {
			lock := kind.Lock(f.runtimes[i%len(f.runtimes)], c.name)
			f.group.Go(func() { c.work(lock, i, f.ended) })
		}
	}
	t.Cleanup(f.end)
}

func (f *failover) end() {
	select {
	case <-f.ended:
	default:
		close(f.ended)
	}
	f.group.Wait()
}

// work takes the lock for a moment, again and again. A failed acquire counts as an answer too.
func (c *crew) work(lock *holdfast.Lock, member int, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-time.After(5 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
		lease, err := lock.Acquire(ctx)
		cancel()
		c.mu.Lock()
		c.served[member]++
		if err != nil {
			c.errors++
		} else {
			c.tokens = append(c.tokens, lease.Token())
		}
		c.mu.Unlock()
		if err == nil {
			c.spans.Hold(lease, 2*time.Millisecond)
			_ = lease.Release(context.Background()) // it may have been lost
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
	f.awaitService(t, over)
	locktest.Await(t, "holders to know", func() bool {
		return !slices.ContainsFunc(held, func(lease *holdfast.Lease) bool {
			return lease.Valid() && client.HExists(t.Context(), lease.Name(), lease.ID()).Val() != true
		})
	})
	assert.Less(t, time.Since(over), servedWithin+failoverLease/3, "holders know within a renewal interval")
	for _, lease := range held {
		if lease.Valid() {
			assert.NoError(t, lease.Release(t.Context()))
		} else {
			f.lost++
		}
	}
	f.restore()
}

// awaitService returns when every member of every crew has been served or refused once more.
func (f *failover) awaitService(t *testing.T, since time.Time) {
	before := map[*crew][]int{}
	for _, c := range f.crews {
		c.mu.Lock()
		before[c] = slices.Clone(c.served)
		c.mu.Unlock()
	}
	for c, served := range before {
		for member, n := range served {
			locktest.Await(t, fmt.Sprint("an answer for one of those who want a ", c.kind), func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.served[member] > n
			})
		}
	}
	f.took = append(f.took, time.Since(since))
}

func (f *failover) judge(t *testing.T) {
	f.end()
	slices.Sort(f.took)
	t.Logf("%d failovers: everybody answered %v after the new master came, at most %v; %d of %d held leases lost",
		len(f.took), f.took[len(f.took)/2], f.took[len(f.took)-1], f.lost, 20*len(f.took))
	assert.Less(t, f.took[len(f.took)-1], servedWithin)
	for _, c := range f.crews {
		overlaps := c.spans.Overlaps()
		t.Logf("%s: %d times held, %d errors, two holders %d times", c.kind, c.spans.Len(), c.errors, len(overlaps))
		assert.Positive(t, c.spans.Len())
		assert.LessOrEqual(t, len(overlaps), len(f.took), "no more than the grant that was on its way, each time")
		if c.tokens[0] != 0 && len(overlaps) == 0 {
			assert.IsIncreasing(t, c.tokens)
		}
	}
	require.NotEmpty(t, f.crews)
}
