package interop

import (
	"context"
	"fmt"
	"strings"
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

// place is one or more servers that both sides use, with each side's way to connect to them. The variable `places` has a row for each place.
type place struct {
	name string
	// client returns a new client, for a runtime or to look at the server.
	client func(t *testing.T) redis.UniversalClient
	// redisson has the arguments of the driver's request client-open.
	redisson []string
	// addr is the address of one of the servers. How fast it answers shows how busy the machine is.
	addr string
	// pubSub is our side's setting for messages. sharded says whether both sides send sharded messages at this place.
	pubSub  holdfast.PubSubMode
	sharded bool
}

var places = []struct {
	name, title string
	make        func(t *testing.T) *place
}{
	{"single", "A single server", singleServer},
	{"sentinel", "A master and its replica, behind Sentinel", sentinel},
	{"cluster", "A cluster, sharded messages", sharded},
	{"cluster, plain", "A cluster, plain messages", plain},
}

func singleServer(t *testing.T) *place { return singleServerAt(redistest.Shared(t).Addr()) }

func singleServerAt(addr string) *place {
	return &place{
		name:     "single",
		client:   func(t *testing.T) redis.UniversalClient { return locktest.NewClient(t, addr) },
		redisson: []string{"mode=single", "addresses=" + addr},
		addr:     addr,
	}
}

// sentinel is a master with a replica, behind Sentinel. There, Redisson waits for the replica after every script.
func sentinel(t *testing.T) *place {
	g := redistest.SharedGuarded(t)
	var addrs []string
	for _, s := range g.Sentinels {
		addrs = append(addrs, s.Addr())
	}
	return &place{
		name:     "sentinel",
		client:   func(t *testing.T) redis.UniversalClient { return g.Client(t) },
		redisson: []string{"mode=sentinel", "addresses=" + strings.Join(addrs, ","), "master=" + redistest.GuardedName},
		addr:     g.Master().Addr(),
	}
}

// sharded is a cluster on which both sides send sharded messages. No setting says so: each side detects that the cluster supports them. The place
// named plain is the same cluster, but both sides are configured for plain messages.
func sharded(t *testing.T) *place {
	p := cluster(t, "auto")
	p.sharded = true
	return p
}

func plain(t *testing.T) *place {
	p := cluster(t, "off")
	p.name, p.pubSub = "cluster, plain", holdfast.PubSubPlain
	return p
}

// cluster is the cluster that all tests share. Its masters have replicas, and either side may subscribe at any of them.
func cluster(t *testing.T, mode string) *place {
	c := redistest.SharedReplicated(t)
	return &place{
		name:     "cluster",
		client:   func(t *testing.T) redis.UniversalClient { return locktest.ClusterClient(t, c) },
		redisson: []string{"mode=cluster", "addresses=" + strings.Join(c.Addrs(), ","), "sharded=" + mode},
		addr:     c.Addrs()[0],
	}
}

// everywhere runs a test at every place, with one kind after the other.
func everywhere(t *testing.T, applies func(k kind) bool, show func(t *testing.T, m *meeting)) {
	atPlaces(t, func(t *testing.T, p *place) {
		for _, k := range kinds {
			if applies(k) {
				t.Run(k.name, func(t *testing.T) { show(t, meet(t, p, k)) })
			}
		}
	})
}

// everywhereAtOnce runs a test with all kinds at all places at the same time. It is for tests that mostly wait.
func everywhereAtOnce(t *testing.T, applies func(k kind) bool, show func(t *testing.T, m *meeting)) {
	atPlaces(t, func(t *testing.T, p *place) {
		t.Parallel()
		for _, k := range kinds {
			if applies(k) {
				t.Run(k.name, func(t *testing.T) {
					t.Parallel()
					show(t, meet(t, p, k))
				})
			}
		}
	})
}

// atPlaces runs a test at every place; with -short, only at the first.
func atPlaces(t *testing.T, show func(t *testing.T, p *place)) {
	redisson(t)
	for i, where := range places {
		if i > 0 && testing.Short() {
			break
		}
		t.Run(where.name, func(t *testing.T) { show(t, where.make(t)) })
	}
}

// meeting is what both sides share in a test: a place, a kind, and a name that no other test uses.
type meeting struct {
	*place
	kind kind
	name string
	look redis.UniversalClient
}

func meet(t *testing.T, p *place, k kind) *meeting {
	return &meeting{place: p, kind: k, name: redistest.Name(t), look: p.client(t)}
}

// another returns the same meeting with another name.
func (m *meeting) another(t *testing.T) *meeting {
	n := *m
	n.name = redistest.Name(t)
	return &n
}

// ours returns our side, with its own runtime. A lease of 0 is the default.
func (m *meeting) ours(t *testing.T, lease time.Duration) side {
	return &goSide{rt: locktest.NewRuntime(t, m.client(t), holdfast.Options{Lease: lease, PubSub: m.pubSub})}
}

// lingering returns our side, with a runtime whose released locks linger.
func (m *meeting) lingering(t *testing.T, linger time.Duration) side {
	return &goSide{rt: locktest.NewRuntime(t, m.client(t), holdfast.Options{PubSub: m.pubSub, Linger: linger})}
}

// theirs returns Redisson's side. Calls for the same place and lease share one client, as in a service. A lease of 0 is Redisson's
// default.
func (m *meeting) theirs(t *testing.T, lease time.Duration) side {
	d := redisson(t)
	if lease == 0 {
		lease = 30 * time.Second
	}
	name := fmt.Sprintf("%s-%d-%d", m.addr, m.pubSub, lease.Milliseconds())
	clients.mu.Lock()
	defer clients.mu.Unlock()
	if clients.open[name] == "" {
		ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
		defer cancel()
		id, err := d.ask(ctx, "client-open", append(m.redisson, "client="+name, fmt.Sprintf("watchdog=%d", lease.Milliseconds()))...)
		require.NoError(t, err)
		clients.open[name] = id
	}
	return &javaSide{driver: d, client: name, id: clients.open[name]}
}

var clients = struct {
	mu   sync.Mutex
	open map[string]string // name -> id
}{open: map[string]string{}}

// listened waits until a client is subscribed to a channel of this name.
func (m *meeting) listened(t *testing.T) {
	t.Helper()
	locktest.Await(t, "a subscription", func() bool { return m.subscriptions(t) > 0 })
}

func (m *meeting) subscriptions(t *testing.T) int {
	pattern := "*" + m.name + "*"
	count := func(ctx context.Context, node *redis.Client) int {
		if m.sharded {
			return len(node.PubSubShardChannels(ctx, pattern).Val())
		}
		return len(node.PubSubChannels(ctx, pattern).Val())
	}
	cluster, ok := m.look.(*redis.ClusterClient)
	if !ok {
		return count(t.Context(), m.look.(*redis.Client))
	}
	var mu sync.Mutex
	var all int
	assert.NoError(t, cluster.ForEachShard(t.Context(), func(ctx context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all += count(ctx, node)
		return nil
	}))
	return all
}
