package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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
	cutLease  = 3 * time.Second // its deadline is 32 ms earlier than the server's
	cutAtOnce = 40
)

// cutOff is one try: a holder whose link fails at a random instant, in a random way.
type cutOff struct {
	*locktest.Place
	how, held string
	proxy     *faultproxy.Proxy
	rt        *holdfast.Runtime
	events    locktest.Recorder
	lease     *holdfast.Lease
	cutAt     time.Time
	next      chan time.Time // when somebody else was granted the lock; nil: nobody waits

	deadline time.Time // the last that was seen
	doneAt   time.Time
	goneAt   time.Time // when the answer came that the grant is not in Redis any more
	expiry   time.Time // the server does not expire the key before
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

// showCutOffs shows some of the tries, all at once. They end, with all that belongs to them, before the next ones begin.
func showCutOffs(t *testing.T, p *locktest.Place, healthy *holdfast.Runtime, random *rand.Rand, n int, report *cutReport) {
	t.Run("", func(t *testing.T) {
		tries := make([]*cutOff, n)
		for i := range tries {
			tries[i] = newCutOff(t, p, healthy, random)
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

// tooLate is longer than one renewal may take.
func tooLate(random *rand.Rand) time.Duration {
	return cutLease/3 + time.Duration(random.Int64N(int64(cutLease)))
}

// holds are the ways to hold a lock.
var holds = []struct {
	name string
	take func(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) *holdfast.Lease
}{
	{"renewed", func(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) *holdfast.Lease {
		return locktest.Acquire(t, p.Lock(rt))
	}},
	{"handed on", func(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) *holdfast.Lease {
		first, second := locktest.Acquire(t, p.Lock(rt)), p.Lock(rt).AcquireAsync(t.Context())
		locktest.Release(t, first)
		lease, err := second.Lease()
		require.NoError(t, err)
		return lease
	}},
	{"re-entered", func(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) *holdfast.Lease {
		owner := holdfast.WithOwner(rt.NewOwner())
		locktest.Acquire(t, p.Lock(rt), owner)
		return locktest.Acquire(t, p.Lock(rt), owner)
	}},
	{"fixed", func(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) *holdfast.Lease {
		return locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(cutLease*4/3))
	}},
	{"extended", func(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) *holdfast.Lease {
		lease := locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(cutLease))
		require.NoError(t, lease.Extend(t.Context(), cutLease*4/3))
		return lease
	}},
}

func newCutOff(t *testing.T, p *locktest.Place, healthy *holdfast.Runtime, random *rand.Rand) *cutOff {
	how, hold := random.IntN(len(cuts)), holds[random.IntN(len(holds))]
	c := &cutOff{Place: p.Another(t), how: cuts[how].name, held: hold.name}
	c.rt, c.proxy = p.Proxied(t, holdfast.Options{Lease: cutLease, OnEvent: c.events.Record})
	c.lease = hold.take(t, c.Place, c.rt)
	if random.IntN(2) == 0 {
		c.next = make(chan time.Time, 1)
		go c.waitElsewhere(t, healthy)
	}
	after := time.Duration(random.Int64N(int64(cutLease))) // any point of the renewal cycle
	c.cutAt = time.Now().Add(after)
	down := time.AfterFunc(after, func() { cuts[how].do(c.proxy, rand.New(rand.NewPCG(uint64(after), 0))) })
	t.Cleanup(func() { down.Stop() })
	return c
}

// waitElsewhere takes the lock when it is to be had, in another runtime, which is well.
func (c *cutOff) waitElsewhere(t *testing.T, rt *holdfast.Runtime) {
	lease, err := c.Lock(rt).Acquire(context.Background())
	granted := time.Now()
	valid := c.lease.Valid()
	if assert.NoError(t, err) {
		assert.False(t, valid, "%s, %s: valid when another was granted the lock", c.how, c.held)
		assert.NoError(t, lease.Release(context.Background()))
	}
	c.next <- granted
}

// watchAll looks at all the grants through a link that is well until none is left, and for some time more. It tells of the gaps
// between its looks.
func watchAll(t *testing.T, client *redis.Client, tries []*cutOff) (all gaps) {
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
		require.Less(t, now.Sub(start), locktest.Patience, "all of them end")
	}
	return all
}

// lookAt asks the server for all grants and counts those that are gone.
func lookAt(t *testing.T, client *redis.Client, tries []*cutOff) (gone int) {
	for _, c := range tries {
		c.look()
	}
	pipe := client.Pipeline()
	ttls, there := make([]*redis.DurationCmd, len(tries)), make([]*redis.BoolCmd, len(tries))
	for i, c := range tries {
		ttls[i] = pipe.PTTL(context.Background(), c.Name)
		there[i] = pipe.HExists(context.Background(), c.Name, c.lease.ID()) // after the TTL, which is this grant's then
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
			c.look() // was it told by now?
			c.goneAt = time.Now()
			require.False(t, c.lease.Valid(), "%s, %s: valid although the server has let the key go", c.how, c.held)
		}
		if !c.goneAt.IsZero() {
			gone++
		}
		c.look()
	}
	return gone
}

// look notes what the lease says of itself.
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

// gap is the time from one look of the observer to the next. It is long when this process or the server was not run.
type gap struct{ from, to time.Time }

type gaps []gap

// longest is the longest gap that touches a span of time.
func (g gaps) longest(from, to time.Time) (longest time.Duration) {
	for _, one := range g {
		if one.to.After(from) && one.from.Before(to) {
			longest = max(longest, one.to.Sub(one.from))
		}
	}
	return longest
}

// cutReport is what came out.
type cutReport struct {
	tries, stalled int
	margin         time.Duration // the shortest from a deadline to the server's expiry
	told           []time.Duration
}

func (r *cutReport) String() string {
	slices.Sort(r.told)
	return fmt.Sprintf("%d tries, %d of them while nothing was run for long; from the deadline to Done: median %v, worst %v; "+
		"from the deadline to the server's expiry: at least %v",
		r.tries, r.stalled, r.told[len(r.told)/2], r.told[len(r.told)-1], r.margin)
}

// check looks at one try when all is over.
func (c *cutOff) check(t *testing.T, pauses gaps, report *cutReport) {
	t.Helper()
	c.doneAt = c.doneOr(t)
	stall := pauses.longest(c.deadline.Add(-10*time.Millisecond), c.doneAt)
	report.tries++
	report.told = append(report.told, c.doneAt.Sub(c.deadline))
	report.margin = min(report.margin, c.expiry.Sub(c.deadline))
	name := c.how + ", " + c.held

	assert.GreaterOrEqual(t, c.expiry.Sub(c.deadline), time.Duration(0), "%s: the deadline comes before the server's", name)
	switch late := c.doneAt.Sub(c.goneAt); {
	case late <= 0:
	case stall > 10*time.Millisecond:
		report.stalled++
		assert.Less(t, late, 5*stall, "%s: Done was closed after the key was gone, nothing was run for %v", name, stall)
	default:
		assert.Fail(t, "Done was closed after the key was gone", "%s: %v later; nothing was run for %v", name, late, stall)
	}
	assert.ErrorIs(t, c.lease.Err(), holdfast.ErrLeaseLost, name)
	assert.Less(t, c.goneAt.Sub(c.cutAt), 3*cutLease+5*stall, "%s: the server is not told to keep the key any more", name)
	if c.next != nil {
		select {
		case granted := <-c.next:
			assert.True(t, granted.After(c.deadline), name)
		case <-time.After(locktest.Patience):
			assert.Fail(t, "the next one waits for ever", name)
		}
	}
	locktest.Await(t, "the event", func() bool { return len(locktest.Recorded[holdfast.LeaseLost](&c.events)) == 1 })
}

// doneOr is when Done was closed, as far as the observer saw.
func (c *cutOff) doneOr(t *testing.T) time.Time {
	if !c.doneAt.IsZero() {
		return c.doneAt
	}
	return locktest.Closed(t, "Done", c.lease.Done())
}
