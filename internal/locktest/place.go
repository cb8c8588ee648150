package locktest

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Patience bounds every wait for what must happen, also on a machine that is busy with something else.
const Patience = 20 * time.Second

// Kind is one kind of lock with one holder at a time. Every promise is shown for all of them.
type Kind struct {
	Name string
	Lock func(rt *holdfast.Runtime, name string) *holdfast.Lock
	Peer func(peer *redissonpeer.Peer, name string, thread int64) redissonpeer.Lock // Redisson's
	// Queued: Redis keeps the queue, so every holder has a grant of its own.
	Queued bool
	// Deaf: waiters are told nothing, they try again and again.
	Deaf bool
	// Fenced: every grant has a token.
	Fenced bool
	// Mode is what State has while somebody holds it.
	Mode string
}

// TakesTurns reports whether processes take turns by what they are told of releases.
func (k Kind) TakesTurns() bool { return !k.Queued && !k.Deaf }

// Kinds are all of them: a new kind needs one row here.
var Kinds = []Kind{
	{Name: "lock", Lock: (*holdfast.Runtime).Lock, Peer: rlock, Mode: "exclusive"},
	{Name: "fenced lock", Lock: (*holdfast.Runtime).FencedLock, Peer: rlock, Mode: "exclusive", Fenced: true},
	{Name: "spin lock", Lock: (*holdfast.Runtime).SpinLock, Peer: rlock, Mode: "exclusive", Deaf: true},
	{Name: "write lock", Lock: func(rt *holdfast.Runtime, name string) *holdfast.Lock { return rt.RWLock(name).Write() }, Peer: writeLock, Mode: "write"},
	{Name: "fair lock", Lock: (*holdfast.Runtime).FairLock, Peer: fairLock, Mode: "exclusive", Queued: true},
}

func rlock(peer *redissonpeer.Peer, name string, thread int64) redissonpeer.Lock {
	return peer.RLock(name, thread)
}

func writeLock(peer *redissonpeer.Peer, name string, thread int64) redissonpeer.Lock {
	return peer.RWriteLock(name, thread)
}

func fairLock(peer *redissonpeer.Peer, name string, thread int64) redissonpeer.Lock {
	return peer.RFairLock(name, thread)
}

// servers are where a promise is shown that needs no faults.
var servers = []struct {
	Name string
	Addr func(t *testing.T) string
}{
	{"redis", func(t *testing.T) string { return redistest.Shared(t).Addr() }},
	{"embedded", func(t *testing.T) string {
		server, err := embedded.Start()
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, server.Close()) })
		return server.Addr()
	}},
}

// Place is one kind on one server, with a lock name that nobody else uses.
type Place struct {
	Kind   Kind
	Addr   string
	Name   string
	Redis  redis.UniversalClient // to look with; no runtime has it
	Server *redistest.Server     // nil if others use it too

	Cluster *redistest.Cluster // nil: a single server
	Guarded *redistest.Guarded // nil: without Sentinel
	PubSub  holdfast.PubSubMode
}

// Everywhere shows a promise for every kind on every server.
func Everywhere(t *testing.T, show func(t *testing.T, p *Place)) {
	for _, kind := range Kinds {
		for _, server := range servers {
			t.Run(kind.Name+"/"+server.Name, func(t *testing.T) {
				t.Parallel()
				show(t, newPlace(t, kind, server.Addr(t)))
			})
		}
		t.Run(kind.Name+"/cluster", func(t *testing.T) {
			t.Parallel()
			show(t, clusterPlace(t, kind, holdfast.PubSubAuto))
		})
		if kind.Name != Kinds[0].Name && Scaled(2, 1) == 1 {
			continue // the kinds do not differ in what is left
		}
		t.Run(kind.Name+"/cluster, plain messages", func(t *testing.T) {
			t.Parallel()
			show(t, clusterPlace(t, kind, holdfast.PubSubPlain))
		})
		t.Run(kind.Name+"/sentinel", func(t *testing.T) {
			t.Parallel()
			guarded := redistest.SharedGuarded(t)
			p := newPlace(t, kind, guarded.Master().Addr())
			p.Guarded = guarded
			show(t, p)
		})
	}
}

// clusterPlace is one kind on the cluster that all tests share.
func clusterPlace(t *testing.T, k Kind, mode holdfast.PubSubMode) *Place {
	cluster := redistest.SharedCluster(t)
	name := redistest.Name(t)
	return &Place{Kind: k, Addr: cluster.Owner(name).Addr(), Name: name, Redis: ClusterClient(t, cluster), Cluster: cluster, PubSub: mode}
}

// OnServers shows something that is not about a kind of lock on every server.
func OnServers(t *testing.T, show func(t *testing.T, p *Place)) {
	for _, server := range servers {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			show(t, newPlace(t, Kind{}, server.Addr(t)))
		})
	}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		show(t, clusterPlace(t, Kind{}, holdfast.PubSubAuto))
	})
}

// OnServersOf shows something that only one kind does, by its name, on every server.
func OnServersOf(t *testing.T, kind string, show func(t *testing.T, p *Place)) {
	for _, server := range servers {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			show(t, newPlace(t, kindOf(t, kind), server.Addr(t)))
		})
	}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		show(t, clusterPlace(t, kindOf(t, kind), holdfast.PubSubAuto))
	})
}

// Somewhere is a place on a Redis that others use too, for what is not about a kind of lock.
func Somewhere(t *testing.T) *Place {
	return newPlace(t, Kind{}, redistest.Shared(t).Addr())
}

// OnServerOfItsOwn is a Redis that the test may disturb, for what is not about a kind of lock.
func OnServerOfItsOwn(t *testing.T) *Place {
	server := redistest.Start(t)
	p := newPlace(t, Kind{}, server.Addr())
	p.Server = server
	return p
}

// OnOwnServer shows a promise for every kind on a Redis that the test may disturb.
func OnOwnServer(t *testing.T, show func(t *testing.T, p *Place)) {
	for _, kind := range Kinds {
		t.Run(kind.Name+"/own", func(t *testing.T) {
			t.Parallel()
			show(t, OwnPlace(t, kind))
		})
	}
}

// OnOneServer are places of all kinds on one Redis that the test may disturb, for faults that hit them all alike. args are added to
// the server's command line.
func OnOneServer(t *testing.T, args ...string) []*Place {
	return OnServer(t, redistest.Start(t, args...))
}

// OnServer is OnOneServer on a Redis that the test has started.
func OnServer(t *testing.T, server *redistest.Server) []*Place {
	client := NewClient(t, server.Addr())
	places := make([]*Place, len(Kinds))
	for i, kind := range Kinds {
		places[i] = &Place{Kind: kind, Addr: server.Addr(), Name: redistest.Name(t), Redis: client, Server: server}
	}
	return places
}

// InTurn is OnOwnServer for what needs the whole machine: one kind after the other, and nothing beside if the test is not parallel.
func InTurn(t *testing.T, show func(t *testing.T, p *Place)) {
	for _, kind := range Kinds {
		t.Run(kind.Name+"/own", func(t *testing.T) { show(t, OwnPlace(t, kind)) })
	}
}

// OwnPlace is one kind on a Redis that the test may disturb, started with args.
func OwnPlace(t *testing.T, k Kind, args ...string) *Place {
	server := redistest.Start(t, args...)
	p := newPlace(t, k, server.Addr())
	p.Server = server
	return p
}

func newPlace(t *testing.T, k Kind, addr string) *Place {
	return &Place{Kind: k, Addr: addr, Name: redistest.Name(t), Redis: NewClient(t, addr)}
}

// PlaceOf is one kind, by its name, on the server that all tests share.
func PlaceOf(t *testing.T, kind string) *Place {
	return newPlace(t, kindOf(t, kind), redistest.Shared(t).Addr())
}

func kindOf(t *testing.T, name string) Kind {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return Kinds[i]
}

// OwnPlaceOf is one kind, by its name, on a Redis that the test may disturb.
func OwnPlaceOf(t *testing.T, kind string) *Place {
	server := redistest.Start(t)
	p := PlaceOf(t, kind)
	p.Addr, p.Server, p.Redis = server.Addr(), server, NewClient(t, server.Addr())
	return p
}

// Another is the same place with another lock name, for a subtest.
func (p *Place) Another(t *testing.T) *Place {
	return p.Named(redistest.Name(t))
}

// Named is the same place with this lock name, or in a cluster one that begins so and is on the same server.
func (p *Place) Named(name string) *Place {
	q := *p
	q.Name = name
	for i := 0; q.Cluster != nil && q.Cluster.Owner(q.Name).Addr() != q.Addr; i++ {
		q.Name = name + "." + strconv.Itoa(i)
	}
	return &q
}

// Lock is the runtime's handle of the place's lock.
func (p *Place) Lock(rt *holdfast.Runtime) *holdfast.Lock { return p.Kind.Lock(rt, p.Name) }

// Runtime is a runtime as a process of its own would have it: with its own client. It is closed when the test ends.
func (p *Place) Runtime(t *testing.T, options holdfast.Options) *holdfast.Runtime {
	options.PubSub = p.PubSub
	return NewRuntime(t, p.Client(t), options)
}

// Client is a client of its own, as a process would have it.
func (p *Place) Client(t *testing.T) redis.UniversalClient {
	if p.Cluster != nil {
		return ClusterClient(t, p.Cluster)
	}
	if p.Guarded != nil {
		return p.Guarded.Client(t)
	}
	return NewClient(t, p.Addr)
}

// Proxied is a runtime with a proxy between it and the server. The proxy's faults end before the runtime is closed.
func (p *Place) Proxied(t *testing.T, options holdfast.Options) (*holdfast.Runtime, *faultproxy.Proxy) {
	client, proxy := p.ProxiedClient(t)
	options.PubSub = p.PubSub
	rt := NewRuntime(t, client, options)
	t.Cleanup(proxy.Heal)
	return rt, proxy
}

// ProxiedClient is a client with a proxy between it and the server, in a cluster the one of this place.
func (p *Place) ProxiedClient(t *testing.T) (redis.UniversalClient, *faultproxy.Proxy) {
	proxy := faultproxy.New(t, p.Addr)
	if p.Cluster == nil {
		return NewClient(t, proxy.Addr()), proxy
	}
	return clusterClient(t, p.Cluster, func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == p.Addr {
			addr = proxy.Addr()
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}), proxy
}

// Fields are the lock's holders in Redis, with their counts; empty: it is free. The mode of a read/write lock is not among them.
func (p *Place) Fields(t *testing.T) map[string]string {
	fields, err := p.Redis.HGetAll(context.Background(), p.Name).Result()
	assert.NoError(t, err)
	delete(fields, "mode")
	return fields
}

// Exists tells whether the lock's key is there.
func (p *Place) Exists(t *testing.T) bool {
	n, err := p.Redis.Exists(context.Background(), p.Name).Result()
	assert.NoError(t, err)
	return n > 0
}

// Keys are all keys on the server, but for the counters of fenced locks, which stay.
func (p *Place) Keys(t *testing.T) []string { return Keys(t, p.Redis) }

// KeysLike are the keys that match, on the server that has the lock.
func (p *Place) KeysLike(t *testing.T, pattern string) []string {
	t.Helper()
	client := p.Redis
	if p.Cluster != nil {
		client = NewClient(t, p.Addr)
	}
	keys, err := client.Keys(context.Background(), pattern).Result()
	assert.NoError(t, err)
	return keys
}

// Keys are all keys on a server, but for the counters of fenced locks, which stay.
func Keys(t *testing.T, client redis.UniversalClient) []string {
	keys, err := client.Keys(context.Background(), "*").Result()
	assert.NoError(t, err)
	return slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "redisson_lock_token:") })
}

// WaitForWaiting returns when that many acquires of the runtime, or more, wait for the lock.
func (p *Place) WaitForWaiting(t *testing.T, rt *holdfast.Runtime, n int) {
	t.Helper()
	Await(t, "waiters", func() bool {
		state, err := p.Lock(rt).Inspect(context.Background())
		return err == nil && state.Waiting >= n // a busy machine may be too late for an answer
	})
}

// WaitForWaiter returns when somebody of the runtime waits for the lock and listens for its release.
func (p *Place) WaitForWaiter(t *testing.T, rt *holdfast.Runtime) {
	t.Helper()
	p.WaitForWaiting(t, rt, 1)
	p.WaitForListener(t)
}

// WaitForListener returns when somebody listens for a release of the lock.
func (p *Place) WaitForListener(t *testing.T) {
	t.Helper()
	if p.Kind.Deaf {
		return
	}
	Await(t, "a subscription", func() bool { return p.listeners(t) > 0 })
}

func (p *Place) listeners(t *testing.T) (n int) {
	pattern, ctx := "*"+p.Name+"}*", context.Background()
	p.everyServer(t, func(client redis.UniversalClient) {
		n += len(client.PubSubChannels(ctx, pattern).Val())
		if p.Cluster != nil {
			n += len(client.PubSubShardChannels(ctx, pattern).Val())
		}
	})
	return n
}

// Subscribers are how many connections listen on a channel, in either way.
func (p *Place) Subscribers(t *testing.T, channel string) (n int64) {
	ctx := context.Background()
	p.everyServer(t, func(client redis.UniversalClient) {
		n += client.PubSubNumSub(ctx, channel).Val()[channel]
		if p.Cluster != nil {
			n += client.PubSubShardNumSub(ctx, channel).Val()[channel]
		}
	})
	return n
}

// everyServer calls f for each server: a subscription may be at any of them.
func (p *Place) everyServer(t *testing.T, f func(client redis.UniversalClient)) {
	if p.Cluster == nil {
		f(p.Redis)
		return
	}
	for _, client := range p.everyClient(t) {
		f(client)
		_ = client.Close()
	}
}

// everyClient has a new client for each server.
func (p *Place) everyClient(t *testing.T) (clients []*redis.Client) {
	if p.Cluster == nil {
		return []*redis.Client{NewClient(t, p.Addr)}
	}
	for _, server := range append(slices.Clone(p.Cluster.Masters), p.Cluster.Replicas...) {
		clients = append(clients, server.Client(t))
	}
	return clients
}
