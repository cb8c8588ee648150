package actors

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/scripts"
)

// cluster is the masters of a Redis Cluster, as go-redis knows them: it asks again every ten seconds, and when it is told to.
type cluster struct {
	client *redis.ClusterClient
	tells  *telling
	known  atomic.Bool

	mu     sync.Mutex
	nodes  map[*redis.Client]*node
	strays map[string]*node // by address: masters without slots, which go-redis does not tell of
	timed  *node            // the first one whose clock is known
	ended  bool
}

func newCluster(client *redis.ClusterClient, tells *telling) *cluster {
	return &cluster{client: client, tells: tells, nodes: map[*redis.Client]*node{}, strays: map[string]*node{}}
}

func (c *cluster) of(key string) *node {
	if !c.known.Load() {
		return nil
	}
	client, err := c.client.MasterForKey(context.Background(), key) // asks nobody, once it is known
	if err != nil {
		return nil
	}
	return c.node(client)
}

// any is the master of one slot or another.
func (c *cluster) any(try int) *node { return c.of(strconv.Itoa(try)) }

func (c *cluster) node(client *redis.Client) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[client]
	if n == nil {
		n = newNode(client)
		n.causes.cluster, n.master = true, client
		c.nodes[client] = n
	}
	return n
}

func (c *cluster) time(instant time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if c.timed != nil {
			break
		}
		if n.clock.known() {
			c.timed = n
		}
	}
	if c.timed == nil {
		return instant
	}
	return c.timed.clock.time(instant)
}

// keep remembers a node until its user forgets it. All users of one server have the same node.
func (c *cluster) keep(n *node) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[n.master] == nil {
		c.nodes[n.master] = n
	}
	n = c.nodes[n.master]
	n.users++
	return n
}

// forget ends a use of a node, which is let go of with the last one.
func (c *cluster) forget(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.users--; n.users > 0 {
		return
	}
	delete(c.nodes, n.master)
	if c.timed == n {
		c.timed = nil
	}
}

// at is the node at an address. go-redis knows masters with slots only; a master that is just getting its first one is asked for
// that slot's keys already, over a client of our own which is made like that of the node that has named it.
func (c *cluster) at(addr string, by *node) *node {
	host, port, _ := net.SplitHostPort(addr)
	named := optionsOf(by.client)
	if host == "" && named != nil { // Redis means the host that it was reached at
		host, _, _ = net.SplitHostPort(named.Addr)
		addr = net.JoinHostPort(host, port)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for client, n := range c.nodes {
		if client.Options().Addr == addr {
			return n
		}
	}
	if c.strays[addr] == nil && named != nil && !c.ended {
		options := *named
		options.Addr = addr
		c.strays[addr] = newNode(c.newClient(&options))
		c.strays[addr].causes.cluster = true
	}
	return c.strays[addr]
}

// optionsOf is nil for a client of a kind that no master of a cluster has.
func optionsOf(client redis.UniversalClient) *redis.Options {
	if single, ok := client.(*redis.Client); ok {
		return single.Options()
	}
	return nil
}

func (c *cluster) newClient(options *redis.Options) *redis.Client {
	if c.client.Options().NewClient != nil {
		return c.client.Options().NewClient(options)
	}
	return redis.NewClient(options)
}

func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, n := range c.strays {
		_ = n.client.Close()
	}
}

func (c *cluster) learn(ctx context.Context) error {
	client, err := c.client.MasterForKey(ctx, "holdfast")
	if err != nil {
		return err
	}
	if err := c.decide(ctx, client); err != nil {
		return err
	}
	c.known.Store(true)
	return nil
}

// decide finds out how releases are told. A client that gets its slots from elsewhere may be one for Sentinel, with which there is no
// cluster, but a master and replicas.
func (c *cluster) decide(ctx context.Context, client *redis.Client) error {
	if c.tells.auto && c.client.Options().ClusterSlots != nil {
		var masters atomic.Int32
		if err := c.each(ctx, func(*node) error { masters.Add(1); return nil }); err != nil {
			return err
		}
		switch clustered, err := isCluster(ctx, bounded(client)); {
		case err != nil && !isNever(err):
			return err
		case masters.Load() == 1 && err == nil && !clustered:
			c.tells.settle(false)
			return nil
		}
	}
	return c.tells.decide(ctx, bounded(client))
}

func (c *cluster) publish() any { return c.tells }

func (c *cluster) part(raw string) uint16 { return scripts.Slot(raw) }

func (c *cluster) suspect() { c.client.ReloadState(context.Background()) }

func (c *cluster) each(ctx context.Context, f func(n *node) error) error {
	return c.client.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error { return f(c.node(client)) })
}
