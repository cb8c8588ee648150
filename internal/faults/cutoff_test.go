package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

const (
	cutLease  = 3 * time.Second // its deadline is 32 ms before the server's expiry
	cutAtOnce = 40
)

// cutOff is one try: a holder whose link fails at a random instant in a random way.
type cutOff struct {
	*locktest.Place
	how, held string
	proxy     *faultproxy.Proxy
	rt        *holdfast.Runtime
	events    locktest.Recorder
	lease     *holdfast.Lease
	after     time.Duration // how long the link works before it fails
	fail      func()        // makes the link fail
	cutAt     time.Time
	next      chan time.Time // receives the time at which another runtime was granted the lock; nil if no other runtime waits

	deadline time.Time // the last deadline that was seen
	doneAt   time.Time
	goneAt   time.Time // when an answer showed that Redis no longer has the grant
	expiry   time.Time // the server does not expire the key before this
}

func TestFault_CutOffHolderKnowsFirst(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		seed := rand.Uint64()
		t.Logf("seed: %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		report := &cutReport{margin: time.Hour}
		healthy := p.Runtime(t, holdfast.Options{})
		for left := locktest.Scaled(200, 10); left > 0; left -= cutAtOnce {
			showCutOffs(t, p, healthy, random, min(left, cutAtOnce), report)
		}
		t.Log(report)
	})
}

// showCutOffs runs n tries at the same time. It returns when they and their runtimes have ended.
func showCutOffs(t *testing.T, p *locktest.Place, healthy *holdfast.Runtime, random *rand.Rand, n int, report *cutReport) {
	t.Run("", func(t *testing.T) {
		tries := make([]*cutOff, n)
		for i := range tries {
			tries[i] = newCutOff(t, p, random)
		}
		for _, c := range tries {
			c.begin(t, healthy)
		}
		pauses := watchAll(t, p.Redis, tries)
		var closing sync.WaitGroup
		for _, c := range tries {
			c.check(t, pauses, report)
			c.proxy.Heal()
			c.proxy.Cut()
			closing.Go(func() { assert.NoError(t, c.rt.Close(context.Background())) })
		}
		closing.Wait()
	})
}

// cuts are the ways in which a link fails.
var cuts = []struct {
	name string
	do   func(p *faultproxy.Proxy, random *rand.Rand)
}{
	{"blackhole", func(p *faultproxy.Proxy, _ *rand.Rand) { p.Blackhole(true) }},
	{"cut", func(p *faultproxy.Proxy, _ *rand.Rand) { p.Refuse(true); p.Cut() }},
	{"cut again and again", func(p *faultproxy.Proxy, _ *rand.Rand) { p.DropReplies(1_000_000); p.Cut() }},
	{"replies lost", func(p *faultproxy.Proxy, _ *rand.Rand) { p.SwallowReplies(true) }},
	{"requests late", func(p *faultproxy.Proxy, r *rand.Rand) { p.Delay(faultproxy.ToServer, tooLate(r)) }},
	{"replies late", func(p *faultproxy.Proxy, r *rand.Rand) { p.Delay(faultproxy.ToClient, tooLate(r)) }},
}

// tooLate returns a delay that is longer than a renewal may take.
func tooLate(random *rand.Rand) time.Duration {
	return cutLease/3 + time.Duration(random.Int64N(int64(cutLease)))
}

// holds are the ways to hold a lock.
var holds = []struct {
	name string
	take func(ctx context.Context, lock *holdfast.Lock, owner holdfast.Owner) (*holdfast.Lease, error)
}{
	{"renewed", func(ctx context.Context, lock *holdfast.Lock, _ holdfast.Owner) (*holdfast.Lease, error) {
		return lock.Acquire(ctx)
	}},
	{"handed on", func(ctx context.Context, lock *holdfast.Lock, _ holdfast.Owner) (*holdfast.Lease, error) {
		first, err := lock.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		second := lock.AcquireAsync(ctx)
		_ = first.Release(ctx)
		return second.Lease()
	}},
	{"re-entered", func(ctx context.Context, lock *holdfast.Lock, owner holdfast.Owner) (*holdfast.Lease, error) {
		if _, err := lock.Acquire(ctx, holdfast.WithOwner(owner)); err != nil {
			return nil, err
		}
		return lock.Acquire(ctx, holdfast.WithOwner(owner))
	}},
	{"fixed", func(ctx context.Context, lock *holdfast.Lock, _ holdfast.Owner) (*holdfast.Lease, error) {
		return lock.Acquire(ctx, holdfast.WithLease(cutLease*4/3))
	}},
	{"extended", func(ctx context.Context, lock *holdfast.Lock, _ holdfast.Owner) (*holdfast.Lease, error) {
		lease, err := lock.Acquire(ctx, holdfast.WithLease(cutLease))
		if err != nil {
			return nil, err
		}
		return lease, lease.Extend(ctx, cutLease*4/3)
	}},
}

// newCutOff returns a holder whose link still works. On a busy machine it may have to acquire more than once.
func newCutOff(t *testing.T, p *locktest.Place, random *rand.Rand) *cutOff {
	how, hold := cuts[random.IntN(len(cuts))], holds[random.IntN(len(holds))]
	c := &cutOff{how: how.name, held: hold.name, after: time.Duration(random.Int64N(int64(cutLease)))}
	seed := random.Uint64()
	c.fail = func() { how.do(c.proxy, rand.New(rand.NewPCG(seed, 0))) }
	if random.IntN(2) == 0 {
		c.next = make(chan time.Time, 1)
	}
	c.Place = p.Another(t)
	c.rt, c.proxy = c.Proxied(t, holdfast.Options{Lease: cutLease, OnEvent: c.events.Record})
	locktest.Await(t, "a holder", func() (held bool) {
		var err error
		c.Place = p.Another(t)
		c.lease, err = hold.take(t.Context(), c.Lock(c.rt), c.rt.NewOwner())
		return err == nil
	})
	return c
}

// begin makes the link fail some time from now, at any point of the renewal cycle.
func (c *cutOff) begin(t *testing.T, healthy *holdfast.Runtime) {
	if c.next != nil {
		go c.waitElsewhere(t, healthy)
	}
	c.cutAt = time.Now().Add(c.after)
	down := time.AfterFunc(c.after, c.fail)
	t.Cleanup(func() { down.Stop() })
}

// waitElsewhere waits for the lock in another runtime, whose link works.
func (c *cutOff) waitElsewhere(t *testing.T, rt *holdfast.Runtime) {
	lease, err := c.Lock(rt).Acquire(context.Background())
	granted := time.Now()
	valid := c.lease.Valid()
	if assert.NoError(t, err) {
		assert.False(t, valid, "%s, %s: still valid when another runtime was granted the lock", c.how, c.held)
		assert.NoError(t, lease.Release(context.Background()))
	}
	c.next <- granted
}

// watchAll calls lookAt every few milliseconds, with a client whose link works. It continues for a short time after the last grant is gone. It
// returns the gaps between the calls.
func watchAll(t *testing.T, client redis.UniversalClient, tries []*cutOff) (all gaps) {
	looks := time.NewTicker(4 * time.Millisecond)
	defer looks.Stop()
	start, over := time.Now(), time.Time{}
	for last := start; over.IsZero() || last.Before(over); <-looks.C {
		gone := lookAt(t, client, tries)
		now := time.Now()
		all = append(all, gap{last, now})
		last = now
		if gone == len(tries) && over.IsZero() {
			over = now.Add(cutLease / 10)
		}
		require.Less(t, now.Sub(start), locktest.Patience, "waiting for all grants to end")
	}
	return all
}

// lookAt asks the server for all grants and counts those that are gone.
func lookAt(t *testing.T, client redis.UniversalClient, tries []*cutOff) (gone int) {
	for _, c := range tries {
		c.look()
	}
	pipe := client.Pipeline()
	ttls, there := make([]*redis.DurationCmd, len(tries)), make([]*redis.BoolCmd, len(tries))
	for i, c := range tries {
		ttls[i] = pipe.PTTL(context.Background(), c.Name)
		there[i] = pipe.HExists(context.Background(), c.Name, c.lease.ID()) // comes after PTTL: if the grant still exists, the TTL belongs to it
	}
	sent := time.Now()
	_, err := pipe.Exec(context.Background())
	require.NoError(t, err)
	for i, c := range tries {
		switch {
		case there[i].Val():
			require.Zero(t, c.goneAt, "%s, %s: the grant came back", c.how, c.held)
			if expiry := sent.Add(ttls[i].Val()); expiry.After(c.expiry) {
				c.expiry = expiry
			}
		case c.goneAt.IsZero():
			c.look() // has Done been closed by now?
			c.goneAt = time.Now()
			require.False(t, c.lease.Valid(), "%s, %s: valid although the server has expired the key", c.how, c.held)
		}
		if !c.goneAt.IsZero() {
			gone++
		}
		c.look()
	}
	return gone
}

// look records the lease's deadline. If Done is closed, look also records the time at which it first saw this.
func (c *cutOff) look() {
	if until := c.lease.ExpiresAt(); !until.IsZero() {
		c.deadline = until
	}
	if c.doneAt.IsZero() {
		select {
		case <-c.lease.Done():
			c.doneAt = time.Now()
		default:
		}
	}
}
