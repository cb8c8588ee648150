package locktest

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Patience limits every wait for something that must happen, even on a busy machine.
const Patience = 20 * time.Second

// Place is one kind of lock on one server, with a lock name that no other test uses.
type Place struct {
	Kind   Kind
	Addr   string
	Name   string
	Redis  redis.UniversalClient // for looking at the server; no runtime uses it
	Server *redistest.Server     // nil if other tests use the server too

	Cluster *redistest.Cluster // nil on a single server
	Guarded *redistest.Guarded // nil without Sentinel
	PubSub  holdfast.PubSubMode
}

// Stranger returns the owner field of a holder outside this process: a thread of some Redisson client.
func Stranger(thread int) string {
	return "7c9e6679-7425-40de-944b-e07fc1f90ae7:" + strconv.Itoa(thread)
}

// Another returns the same place with another lock name, for a subtest.
func (p *Place) Another(t *testing.T) *Place {
	return p.Named(redistest.Name(t))
}

// Named returns the same place with this lock name. In a cluster, Named adds a suffix to the name if that is needed to keep the lock's key on the
// place's server.
func (p *Place) Named(name string) *Place {
	q := *p
	q.Name = name
	for i := 0; q.Cluster != nil && q.Cluster.Owner(q.Name).Addr() != q.Addr; i++ {
		q.Name = name + "." + strconv.Itoa(i)
	}
	return &q
}

// Plain is the same place with plain messages. Tests with a redissonpeer.Peer need it, because the peer sends and receives plain messages only. The
// tests in interop/ cover sharded messages between Redisson and us.
func (p *Place) Plain() *Place {
	q := *p
	if q.Cluster != nil {
		q.PubSub = holdfast.PubSubPlain
	}
	return &q
}

// Lock is the runtime's handle of the place's lock.
func (p *Place) Lock(rt *holdfast.Runtime) *holdfast.Lock { return p.Kind.Lock(rt, p.Name) }

// Runtime returns a runtime with its own client, as another process would have it. It is closed when the test ends.
func (p *Place) Runtime(t *testing.T, options holdfast.Options) *holdfast.Runtime {
	options.PubSub = p.PubSub
	return NewRuntime(t, p.Client(t), options)
}

// Client returns a new client, as another process would have it.
func (p *Place) Client(t *testing.T) redis.UniversalClient {
	if p.Cluster != nil {
		return ClusterClient(t, p.Cluster)
	}
	if p.Guarded != nil {
		return p.Guarded.Client(t)
	}
	return NewClient(t, p.Addr)
}

// Proxied returns a runtime with a proxy between it and the server. The proxy's faults end before the runtime is closed.
func (p *Place) Proxied(t *testing.T, options holdfast.Options) (*holdfast.Runtime, *faultproxy.Proxy) {
	client, proxy := p.ProxiedClient(t)
	options.PubSub = p.PubSub
	rt := NewRuntime(t, client, options)
	t.Cleanup(proxy.Heal)
	return rt, proxy
}

// ProxiedClient returns a client with a proxy between it and the place's server.
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

// Fields returns the lock's holders in Redis, with their counts. The map is empty if the lock is free. The mode of a read/write lock is left out.
func (p *Place) Fields(t *testing.T) map[string]string {
	fields, err := p.Redis.HGetAll(context.Background(), p.Name).Result()
	assert.NoError(t, err)
	delete(fields, "mode")
	return fields
}

// Exists reports whether the lock's key exists.
func (p *Place) Exists(t *testing.T) bool {
	n, err := p.Redis.Exists(context.Background(), p.Name).Result()
	assert.NoError(t, err)
	return n > 0
}

// Keys returns all keys on the server, or in the whole cluster, except the counters of fenced locks, which stay.
func (p *Place) Keys(t *testing.T) []string { return Keys(t, p.Redis) }

// KeysLike returns the keys that match a pattern, on the lock's server.
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

// Keys returns all keys on a server, or in a whole cluster, except the counters of fenced locks, which stay.
func Keys(t *testing.T, client redis.UniversalClient) (keys []string) {
	var mu sync.Mutex
	add := func(ctx context.Context, client *redis.Client) error {
		found, err := client.Keys(ctx, "*").Result()
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, found...)
		return err
	}
	var err error
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(context.Background(), add) // KEYS itself is sent to one node only
	} else {
		err = add(context.Background(), client.(*redis.Client))
	}
	assert.NoError(t, err)
	return slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "redisson_lock_token:") })
}

// WaitForWaiting returns when at least n acquires of the runtime wait for the lock.
func (p *Place) WaitForWaiting(t *testing.T, rt *holdfast.Runtime, n int) {
	t.Helper()
	Await(t, "waiters", func() bool {
		state, err := p.Lock(rt).Inspect(context.Background())
		return err == nil && state.Waiting >= n // on a busy machine the answer may arrive too late
	})
}

// WaitForWaiter returns when an acquire of the runtime waits for the lock, and somebody is subscribed to its release.
func (p *Place) WaitForWaiter(t *testing.T, rt *holdfast.Runtime) {
	t.Helper()
	p.WaitForWaiting(t, rt, 1)
	p.WaitForListener(t)
}

// WaitForListener returns when somebody is subscribed to the lock's channel, or at once for a kind whose waiters do not subscribe.
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

// Subscribers returns how many connections are subscribed to a channel, plain or sharded.
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

// everyServer calls f for each server: a subscription may be on any of them.
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

// everyClient returns a new client for each server.
func (p *Place) everyClient(t *testing.T) (clients []*redis.Client) {
	if p.Cluster == nil {
		return []*redis.Client{NewClient(t, p.Addr)}
	}
	for _, server := range append(slices.Clone(p.Cluster.Masters), p.Cluster.Replicas...) {
		clients = append(clients, server.Client(t))
	}
	return clients
}

// TimeoutKeys returns the timeout keys of the place's read/write lock. The TTL of such a key says how long a reader holds the lock.
func (p *Place) TimeoutKeys(t *testing.T) []string {
	t.Helper()
	return p.KeysLike(t, "{"+p.Name+"}:*:rwlock_timeout:*")
}

// TimeoutKey returns the timeout key of the reader that has this field in the hash of the read/write lock.
func (p *Place) TimeoutKey(field string) string {
	return "{" + p.Name + "}:" + field + ":rwlock_timeout:1"
}
