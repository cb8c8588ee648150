package holdfast_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// patience bounds every wait for what must happen, also on a machine that is busy with something else.
const patience = 20 * time.Second

// kind is one kind of lock with one holder at a time. Every promise is shown for all of them.
type kind struct {
	name string
	lock func(rt *holdfast.Runtime, name string) *holdfast.Lock
}

var kinds = []kind{
	{"lock", (*holdfast.Runtime).Lock},
}

// servers are where a promise is shown that needs no faults.
var servers = []struct {
	name string
	addr func(t *testing.T) string
}{
	{"redis", func(t *testing.T) string { return redistest.Shared(t).Addr() }},
	{"embedded", func(t *testing.T) string {
		server, err := embedded.Start()
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, server.Close()) })
		return server.Addr()
	}},
}

// place is one kind on one server, with a lock name that nobody else uses.
type place struct {
	kind   kind
	addr   string
	name   string
	redis  *redis.Client     // to look with; no runtime has it
	server *redistest.Server // nil if others use it too
}

// everywhere shows a promise for every kind on every server.
func everywhere(t *testing.T, show func(t *testing.T, p *place)) {
	for _, kind := range kinds {
		for _, server := range servers {
			t.Run(kind.name+"/"+server.name, func(t *testing.T) {
				t.Parallel()
				show(t, newPlace(t, kind, server.addr(t)))
			})
		}
	}
}

// onOwnServer shows a promise for every kind on a Redis that the test may disturb.
func onOwnServer(t *testing.T, show func(t *testing.T, p *place)) {
	for _, kind := range kinds {
		t.Run(kind.name+"/own", func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p := newPlace(t, kind, server.Addr())
			p.server = server
			show(t, p)
		})
	}
}

func newPlace(t *testing.T, k kind, addr string) *place {
	return &place{kind: k, addr: addr, name: redistest.Name(t), redis: newClient(t, addr)}
}

// another is the same place with another lock name, for a subtest.
func (p *place) another(t *testing.T) *place {
	q := *p
	q.name = redistest.Name(t)
	return &q
}

func (p *place) lock(rt *holdfast.Runtime) *holdfast.Lock { return p.kind.lock(rt, p.name) }

// runtime is a runtime as a process of its own would have it: with its own client. It is closed when the test ends.
func (p *place) runtime(t *testing.T, options holdfast.Options) *holdfast.Runtime {
	return newRuntime(t, newClient(t, p.addr), options)
}

// proxied is a runtime with a proxy between it and the server. The proxy's faults end before the runtime is closed.
func (p *place) proxied(t *testing.T, options holdfast.Options) (*holdfast.Runtime, *faultproxy.Proxy) {
	proxy := faultproxy.New(t, p.addr)
	rt := newRuntime(t, newClient(t, proxy.Addr()), options)
	t.Cleanup(proxy.Heal)
	return rt, proxy
}

// fields are the lock's holders in Redis, with their counts; empty: it is free.
func (p *place) fields(t *testing.T) map[string]string {
	fields, err := p.redis.HGetAll(context.Background(), p.name).Result()
	assert.NoError(t, err)
	return fields
}

// exists tells whether the lock's key is there.
func (p *place) exists(t *testing.T) bool {
	n, err := p.redis.Exists(context.Background(), p.name).Result()
	assert.NoError(t, err)
	return n > 0
}

// waitForWaiting returns when that many acquires of the runtime, or more, wait for the lock.
func (p *place) waitForWaiting(t *testing.T, rt *holdfast.Runtime, n int) {
	t.Helper()
	await(t, "waiters", func() bool {
		state, err := p.lock(rt).Inspect(context.Background())
		return assert.NoError(t, err) && state.Waiting >= n
	})
}

// waitForWaiter returns when somebody of the runtime waits for the lock and listens for its release.
func (p *place) waitForWaiter(t *testing.T, rt *holdfast.Runtime) {
	t.Helper()
	p.waitForWaiting(t, rt, 1)
	channel := "redisson_lock__channel:{" + p.name + "}"
	await(t, "a subscription", func() bool {
		return p.redis.PubSubNumSub(context.Background(), channel).Val()[channel] > 0
	})
}

func newClient(t *testing.T, addr string) *redis.Client {
	return clientWith(t, &redis.Options{Addr: addr})
}

// clientWith is a client that does not ask for what no server here knows. It is closed when the test ends.
func clientWith(t *testing.T, options *redis.Options) *redis.Client {
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(options)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

// newRuntime is a quiet runtime that is closed when the test ends, and must be closed in time then.
func newRuntime(t *testing.T, client redis.UniversalClient, options holdfast.Options) *holdfast.Runtime {
	t.Helper()
	if options.Logger == nil {
		options.Logger = quiet()
	}
	rt, err := holdfast.New(client, options)
	require.NoError(t, err)
	closeAtEnd(t, rt)
	return rt
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func closeAtEnd(t *testing.T, rt *holdfast.Runtime) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, rt.Close(ctx))
	})
}

// acquire takes a lock that must come free in time.
func acquire(t *testing.T, lock *holdfast.Lock, options ...holdfast.AcquireOption) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := lock.Acquire(ctx, options...)
	require.NoError(t, err)
	return lease
}

// release gives a lease back that must be held.
func release(t *testing.T, lease *holdfast.Lease) {
	t.Helper()
	require.NoError(t, lease.Release(t.Context()))
}

// await waits until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	require.Eventually(t, so, patience, 2*time.Millisecond, "waiting for %s", what)
}

// closed waits for a channel to be closed and tells when that was seen.
func closed(t *testing.T, what string, done <-chan struct{}) time.Time {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		require.Fail(t, "waiting for "+what)
	}
	return time.Now()
}

// open fails the test if the channel is closed already.
func open(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
		require.Fail(t, what+" came too early")
	default:
	}
}

// stays fails the test if something does not stay so for as long as that.
func stays(t *testing.T, what string, d time.Duration, so func() bool) {
	t.Helper()
	looks := time.NewTicker(5 * time.Millisecond)
	defer looks.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-looks.C {
		require.True(t, so(), what)
	}
}

// recorder keeps what Options.OnEvent is told.
type recorder struct {
	mu     sync.Mutex
	events []holdfast.Event
}

func (r *recorder) record(event holdfast.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

// recorded are the events of one type so far.
func recorded[E holdfast.Event](r *recorder) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []E
	for _, event := range r.events {
		if e, ok := event.(E); ok {
			all = append(all, e)
		}
	}
	return all
}

// stalls measures for how long at most this process was not run, or did not reach its server. What is promised about
// milliseconds can be seen only while both are well.
type stalls struct {
	stop  chan struct{}
	ended chan struct{}

	mu    sync.Mutex
	worst time.Duration
}

func watchStalls(t *testing.T, p *place) *stalls {
	s := &stalls{stop: make(chan struct{}), ended: make(chan struct{})}
	client := newClient(t, p.addr)
	go s.watch(client)
	t.Cleanup(func() { close(s.stop); <-s.ended })
	return s
}

func (s *stalls) watch(client *redis.Client) {
	defer close(s.ended)
	const every = 5 * time.Millisecond
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for last := time.Now(); ; {
		select {
		case <-s.stop:
			return
		case <-ticks.C:
		}
		_ = client.Ping(context.Background()).Err()
		now := time.Now()
		s.mu.Lock()
		s.worst = max(s.worst, now.Sub(last)-every)
		s.mu.Unlock()
		last = now
	}
}

// take is the longest stall since it was asked for before.
func (s *stalls) take() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	worst := s.worst
	s.worst = 0
	return worst
}

// countPipelines is a hook that counts what a client is asked to send.
type countPipelines struct{ n atomic.Int64 }

func (c *countPipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (c *countPipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *countPipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, commands)
	}
}
