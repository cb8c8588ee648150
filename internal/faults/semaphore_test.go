package faults_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/scripts"
)

// briefly has a lease so short that calls count as unanswered after 200 ms, and waiters give up after a second.
var briefly = holdfast.Options{Lease: 600 * time.Millisecond}

// permits waits until the wanted number of permits is free, because acquires that were given up return their permits in the background. The test
// fails if more permits are ever free.
func permits(t *testing.T, p *locktest.Place, want int64) {
	t.Helper()
	are := func() int64 {
		n, err := p.Redis.Get(context.Background(), p.Name).Int64()
		require.NoError(t, err)
		return n
	}
	locktest.Await(t, "all permits", func() bool { return are() == want })
	locktest.Stays(t, "no permit too many", 300*time.Millisecond, func() bool { return are() <= want })
	locktest.Await(t, "all permits, still", func() bool { return are() == want })
}

func setPermits(t *testing.T, p *locktest.Place, n int) {
	t.Helper()
	require.NoError(t, p.Redis.Set(t.Context(), p.Name, n, 0).Err())
}

// sha returns the SHA of an operation's script.
func sha(op *scripts.CountOp) string {
	return op.Call(&scripts.Site{}, "x", scripts.CountTerms{Numbers: []int64{1}}).Script.SHA
}

// The reply to an operation of a semaphore or latch is lost, once or twice in a row. The operation still takes effect once, and returns its own
// result.
func TestFault_CountsLostReplyCountsOnce(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	rt, proxy := p.Proxied(t, holdfast.Options{})
	s, ctx := rt.Semaphore(p.Name), t.Context()
	l := rt.CountDownLatch(p.Name + "-latch")
	times := locktest.Scaled(100, 20)
	lost := map[string]int{}
	for range times {
		for _, step := range []struct {
			op   *scripts.CountOp
			run  func() (any, error)
			want any
			key  string
		}{
			{scripts.SemaphoreTrySet, func() (any, error) { return s.TrySetPermits(ctx, 5) }, true, "5"},
			{scripts.SemaphoreAcquire, func() (any, error) { return nil, s.Acquire(ctx, 3) }, nil, "2"},
			{scripts.SemaphoreRelease, func() (any, error) { return nil, s.Release(ctx, 4) }, nil, "6"},
			{scripts.SemaphoreAdd, func() (any, error) { return nil, s.AddPermits(ctx, -1) }, nil, "5"},
			{scripts.SemaphoreRead, func() (any, error) { return s.Available(ctx) }, 5, "5"},
			{scripts.SemaphoreDrain, func() (any, error) { return s.Drain(ctx) }, 5, "0"},
			{scripts.SemaphoreDelete, func() (any, error) { return s.Delete(ctx) }, true, ""},
			{scripts.LatchTrySet, func() (any, error) { return l.TrySetCount(ctx, 2) }, true, "2"},
			{scripts.LatchCountDown, func() (any, error) { return nil, l.CountDown(ctx) }, nil, "1"},
			{scripts.LatchRead, func() (any, error) { return l.Count(ctx) }, 1, "1"},
			{scripts.LatchDelete, func() (any, error) { return l.Delete(ctx) }, true, ""},
			{scripts.LatchWait, func() (any, error) { return nil, l.Wait(ctx) }, nil, ""},
		} {
			before := proxy.Dropped()
			proxy.DropReplies(1+rand.IntN(2), faultproxy.Containing(sha(step.op)))
			got, err := step.run()
			require.NoError(t, err, step.op.Word)
			assert.Equal(t, step.want, got, step.op.Word)
			key := p.Name
			if isLatch(step.op) {
				key += "-latch"
			}
			value, _ := p.Redis.Get(ctx, key).Result() // "" without the key
			assert.Equal(t, step.key, value, step.op.Word)
			lost[step.op.Word] += proxy.Dropped() - before
		}
	}
	t.Logf("replies lost: %v", lost)
	for word, n := range lost {
		assert.GreaterOrEqual(t, n, times, word)
	}
}

func isLatch(op *scripts.CountOp) bool {
	return op == scripts.LatchTrySet || op == scripts.LatchCountDown || op == scripts.LatchRead || op == scripts.LatchDelete || op == scripts.LatchWait
}

// crowd is a group of goroutines that acquire and release until the channel `stop` is closed.
type crowd struct {
	group   sync.WaitGroup
	stop    chan struct{}
	held    atomic.Int64 // permits held now
	most    locktest.Most
	served  atomic.Int64
	refused atomic.Int64
}

// visit starts one goroutine of the crowd. Acquires may fail, but releases must succeed.
func (c *crowd) visit(t *testing.T, s *holdfast.Semaphore, total int) {
	c.group.Go(func() {
		for {
			select {
			case <-c.stop:
				return
			default:
			}
			n := 1 + rand.IntN(total)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond+rand.N(time.Second))
			err := s.Acquire(ctx, n)
			cancel()
			if err != nil {
				c.refused.Add(1)
				continue
			}
			c.most.Note(c.held.Add(int64(n)))
			c.served.Add(1)
			c.held.Add(int64(-n))
			if !assert.NoError(t, s.Release(context.Background(), n)) {
				return
			}
		}
	})
}

func (c *crowd) end(t *testing.T, total int64) {
	close(c.stop)
	c.group.Wait()
	t.Logf("%d served, %d gave up, %d permits held at most", c.served.Load(), c.refused.Load(), c.most.Load())
	assert.LessOrEqual(t, c.most.Load(), total)
	assert.Positive(t, c.served.Load())
}

// stormy runs a crowd in two processes, each behind a proxy. Meanwhile it calls `storm` again and again, with one of the two proxies.
func stormy(t *testing.T, options holdfast.Options, storms int, pause time.Duration, storm func(p *locktest.Place, proxy *faultproxy.Proxy)) {
	p := locktest.OnServerOfItsOwn(t)
	const total = 3
	setPermits(t, p, total)
	c := &crowd{stop: make(chan struct{})}
	var proxies []*faultproxy.Proxy
	for range 2 {
		rt, proxy := p.Proxied(t, options)
		proxies = append(proxies, proxy)
		for range 8 {
			c.visit(t, rt.Semaphore(p.Name), total)
		}
	}
	for range storms {
		<-time.After(rand.N(pause))
		storm(p, proxies[rand.IntN(len(proxies))])
	}
	for _, proxy := range proxies {
		proxy.Heal()
	}
	c.end(t, total)
	permits(t, p, total)
}

// No permit is acquired or released twice, and none is lost, no matter how often replies are lost.
func TestFault_SemaphoreLostRepliesUnderLoad(t *testing.T) {
	t.Parallel()
	stormy(t, holdfast.Options{}, locktest.Scaled(150, 15), 120*time.Millisecond, func(_ *locktest.Place, proxy *faultproxy.Proxy) {
		proxy.DropReplies(1+rand.IntN(3), faultproxy.Containing("evalsha"))
	})
}

func TestFault_SemaphoreConnectionsCut(t *testing.T) {
	t.Parallel()
	stormy(t, holdfast.Options{}, locktest.Scaled(300, 20), 30*time.Millisecond, func(_ *locktest.Place, proxy *faultproxy.Proxy) {
		proxy.Cut()
	})
}

// Permits are counted correctly even if calls are delayed so long that answers arrive too late, and requests arrive after their repeats.
func TestFault_SemaphoreSlowNetwork(t *testing.T) {
	t.Parallel()
	stormy(t, briefly, locktest.Scaled(60, 6), 100*time.Millisecond, func(_ *locktest.Place, proxy *faultproxy.Proxy) {
		direction := faultproxy.Direction(rand.IntN(2))
		proxy.Delay(direction, 100*time.Millisecond+rand.N(200*time.Millisecond))
		<-time.After(rand.N(400 * time.Millisecond))
		proxy.Delay(direction, 0)
	})
}

func TestFault_SemaphoreBlackholes(t *testing.T) {
	t.Parallel()
	stormy(t, briefly, locktest.Scaled(40, 4), 200*time.Millisecond, func(_ *locktest.Place, proxy *faultproxy.Proxy) {
		proxy.Blackhole(true)
		<-time.After(rand.N(1500 * time.Millisecond))
		proxy.Blackhole(false)
	})
}

func TestFault_SemaphoreSwallowedReplies(t *testing.T) {
	t.Parallel()
	stormy(t, briefly, locktest.Scaled(40, 4), 200*time.Millisecond, func(_ *locktest.Place, proxy *faultproxy.Proxy) {
		proxy.SwallowReplies(true)
		<-time.After(rand.N(1500 * time.Millisecond))
		proxy.SwallowReplies(false)
	})
}

func TestFault_SemaphoreServerForgetsScriptsAndStops(t *testing.T) {
	t.Parallel()
	stormy(t, briefly, locktest.Scaled(60, 6), 50*time.Millisecond, func(p *locktest.Place, _ *faultproxy.Proxy) {
		assert.NoError(t, p.Redis.ScriptFlush(context.Background()).Err())
		if rand.IntN(4) == 0 {
			p.Server.Pause()
			<-time.After(rand.N(700 * time.Millisecond))
			p.Server.Resume()
		}
	})
}

func TestFault_SemaphoreRepliesOutOfStep(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	const total = 3
	setPermits(t, p, total)
	var visitors sync.WaitGroup
	var links []*outOfStep
	var left, held atomic.Int64
	var most locktest.Most
	left.Store(int64(locktest.Scaled(10_000, 500)))
	for range 2 {
		link := newOutOfStep(t, p)
		links = append(links, link)
		s := link.rt.Semaphore(p.Name)
		for range 8 {
			visitors.Go(func() {
				for left.Add(-1) >= 0 {
					n := 1 + rand.IntN(total)
					if !assert.NoError(t, s.Acquire(context.Background(), n)) {
						return
					}
					most.Note(held.Add(int64(n)))
					held.Add(int64(-n))
					if !assert.NoError(t, s.Release(context.Background(), n)) {
						return
					}
					link.served.Add(1)
				}
			})
		}
	}
	confuse(links, &visitors)
	assert.LessOrEqual(t, most.Load(), int64(total))
	permits(t, p, total)
}

// If an Acquire, a TryAcquire or a Drain is given up while its outcome is unknown, the permits that it has taken are returned.
func TestFault_SemaphoreGivenUpIsUndone(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	const total = 5
	setPermits(t, p, total)
	rt, proxy := p.Proxied(t, briefly)
	s := rt.Semaphore(p.Name)
	drained, err := s.Drain(t.Context()) // loads the script of Drain; the calls below load the other scripts
	require.NoError(t, err)
	require.NoError(t, s.Release(t.Context(), drained))
	require.NoError(t, s.Acquire(t.Context(), 1))
	require.NoError(t, s.Release(t.Context(), 1))
	for i := range locktest.Scaled(40, 20) {
		proxy.SwallowReplies(true)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		var err error
		switch i % 3 {
		case 0:
			err = s.Acquire(ctx, 2)
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		case 1:
			err = s.TryAcquire(ctx, 3)
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		case 2:
			_, err = s.Drain(ctx)
		}
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		proxy.SwallowReplies(false)
		permits(t, p, total)
	}
}

// If the context of a Release has ended and Redis is away, Release returns an error after half a second, and continues in the background. A Release
// whose context has not ended keeps waiting. When Redis is back, the permits of both are returned, and only once.
func TestFault_SemaphoreReleaseGoesOn(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(proxy *faultproxy.Proxy){
		"refused":   func(proxy *faultproxy.Proxy) { proxy.Refuse(true); proxy.Cut() },
		"blackhole": func(proxy *faultproxy.Proxy) { proxy.Blackhole(true) },
		"swallowed": func(proxy *faultproxy.Proxy) { proxy.SwallowReplies(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := locktest.OnServerOfItsOwn(t)
			setPermits(t, p, 5)
			rt, proxy := p.Proxied(t, briefly)
			s := rt.Semaphore(p.Name)
			locktest.Await(t, "the permits", func() bool { return s.Acquire(t.Context(), 5) == nil }) // a busy machine may answer too late at first
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			away(proxy)
			began := time.Now()
			err := s.Release(ctx, 2)
			took := time.Since(began)
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorContains(t, err, "goes on trying")
			assert.GreaterOrEqual(t, took, 500*time.Millisecond)
			assert.Less(t, took, 5*time.Second)
			patient := make(chan error, 1)
			go func() { patient <- s.Release(context.Background(), 3) }()
			<-time.After(2 * time.Second) // longer than waiters wait for an answer
			proxy.Heal()
			assert.NoError(t, <-patient)
			permits(t, p, 5)
		})
	}
}

// When Redis does not answer, waiters get an error after a while, and acquire no permits.
func TestFault_SemaphoreWaitersLosePatience(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	setPermits(t, p, 1)
	rt, proxy := p.Proxied(t, briefly)
	s, l := rt.Semaphore(p.Name), rt.CountDownLatch(p.Name+"-latch")
	require.NoError(t, s.Acquire(t.Context(), 1))
	set, err := l.TrySetCount(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, set)
	results := make(chan error, 2)
	go func() { results <- s.Acquire(t.Context(), 1) }()
	go func() { results <- l.Wait(t.Context()) }()
	locktest.Await(t, "two subscriptions", func() bool { return len(p.Redis.PubSubChannels(t.Context(), "*"+p.Name+"*").Val()) == 2 })
	proxy.Blackhole(true)
	for range 2 {
		select {
		case err := <-results:
			require.Error(t, err)
			assert.Regexp(t, "no answer|not sent", err.Error())
		case <-time.After(locktest.Patience):
			require.Fail(t, "the waiters wait for ever")
		}
	}
	proxy.Heal()
	require.NoError(t, s.Release(t.Context(), 1))
	permits(t, p, 1)
}

// If the server is away, Close waits no longer than its context allows, and waiters are answered at once.
func TestFault_SemaphoreCloseWithoutServer(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	setPermits(t, p, 2)
	rt := p.Runtime(t, holdfast.Options{})
	s, l := rt.Semaphore(p.Name), rt.CountDownLatch(p.Name+"-latch")
	require.NoError(t, s.Acquire(t.Context(), 2))
	set, err := l.TrySetCount(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, set)
	results := make(chan error, 4)
	go func() { results <- s.Acquire(context.Background(), 1) }()
	go func() { results <- l.Wait(context.Background()) }()
	locktest.Await(t, "two subscriptions", func() bool { return len(p.Redis.PubSubChannels(t.Context(), "*"+p.Name+"*").Val()) == 2 })
	p.Server.Pause()
	go func() { results <- s.Release(context.Background(), 2) }()
	go func() { _, err := s.Drain(context.Background()); results <- err }()
	<-time.After(50 * time.Millisecond) // by now the calls are in flight, or will be refused
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	assert.ErrorIs(t, rt.Close(ctx), context.DeadlineExceeded)
	assert.Less(t, time.Since(began), 2*time.Second)
	for range 4 {
		select {
		case err := <-results:
			// A goroutine that sends its call itself gives up after half a second. That may be before Close answers the call with ErrClosed.
			_, silent := errors.AsType[net.Error](err)
			assert.True(t, silent || errors.Is(err, holdfast.ErrClosed), "%v", err)
		case <-time.After(locktest.Patience):
			require.Fail(t, "nobody answers")
		}
	}
	p.Server.Resume()
}

// If a copy of a cancelled acquire may still be in flight, the runtime leaves a mark in Redis. Because of the mark, the copy acquires nothing. The
// mark outlives Close by at most ten seconds. Nothing else outlives Close.
func TestFault_SemaphoreMarksOutliveClose(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	setPermits(t, p, 1)
	rt, proxy := p.Proxied(t, holdfast.Options{})
	s := rt.Semaphore(p.Name)
	require.NoError(t, s.Acquire(t.Context(), 1))
	require.NoError(t, s.Release(t.Context(), 1))
	proxy.DropReplies(math.MaxInt, faultproxy.Containing(sha(scripts.SemaphoreAcquire))) // the retries get no reply either
	ctx, cancel := context.WithCancel(t.Context())
	acquired := make(chan error, 1)
	go func() { acquired <- s.Acquire(ctx, 1) }()
	locktest.Await(t, "the permit to be taken", func() bool { return p.Redis.Get(t.Context(), p.Name).Val() == "0" })
	cancel()
	require.ErrorIs(t, <-acquired, context.Canceled)
	require.NoError(t, rt.Close(t.Context()))
	assert.Equal(t, "1", p.Redis.Get(t.Context(), p.Name).Val())
	var marks []string
	for _, key := range p.Redis.Keys(t.Context(), "*").Val() {
		if key != p.Name {
			marks = append(marks, key)
			assert.LessOrEqual(t, p.Redis.PTTL(t.Context(), key).Val(), 10*time.Second)
		}
	}
	require.Len(t, marks, 1)
	assert.Contains(t, marks[0], "holdfast_attempt:{"+p.Name+"}:")
}

// Permits are released while the runtime closes. If Release returns no error, the permits have been returned in Redis. If Release returns ErrClosed,
// they have not been returned. So another process may release them again, and no permit is returned twice.
func TestFault_SemaphoreReleaseMeetsClose(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	const each = 32
	var arrived, refused int
	for range locktest.Scaled(200, 10) {
		rt := p.Runtime(t, holdfast.Options{})
		s := rt.Semaphore(p.Name)
		setPermits(t, p, each)
		require.NoError(t, s.Acquire(t.Context(), each))
		var group sync.WaitGroup
		var back, closed atomic.Int64
		for i := range each {
			ctx, cancel := context.WithCancel(t.Context())
			if i%2 == 0 {
				cancel() // then Release has its own time limit
			}
			group.Go(func() {
				defer cancel()
				stayFor(rand.N(500 * time.Microsecond))
				err := s.Release(ctx, 1)
				if err == nil {
					back.Add(1)
					return
				}
				assert.ErrorIs(t, err, holdfast.ErrClosed)
				assert.NotContains(t, err.Error(), "confirmed")
				closed.Add(1)
			})
		}
		stayFor(rand.N(500 * time.Microsecond))
		require.NoError(t, rt.Close(t.Context()))
		group.Wait()
		n, err := p.Redis.Get(t.Context(), p.Name).Int64()
		require.NoError(t, err)
		require.Equal(t, back.Load(), n, "permits whose release was confirmed")
		arrived, refused = arrived+int(back.Load()), refused+int(closed.Load())
	}
	t.Logf("%d arrived, %d were refused", arrived, refused)
	assert.Positive(t, arrived)
	assert.Positive(t, refused)
}
