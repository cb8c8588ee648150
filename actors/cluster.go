package actors

import (
	"context"
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

	mu    sync.Mutex
	nodes map[*redis.Client]*node
	timed *node // the first one whose clock is known
}

func newCluster(client *redis.ClusterClient, tells *telling) *cluster {
	return &cluster{client: client, tells: tells, nodes: map[*redis.Client]*node{}}
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

func (c *cluster) node(client *redis.Client) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[client]
	if n == nil {
		n = newNode(client)
		n.causes.cluster = true
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

// forget lets go of a node that nobody uses.
func (c *cluster) forget(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for client, other := range c.nodes {
		if other == n {
			delete(c.nodes, client)
		}
	}
	if c.timed == n {
		c.timed = nil
	}
}

func (c *cluster) at(ctx context.Context, addr string) *node {
	c.mu.Lock()
	for client, n := range c.nodes {
		if client.Options().Addr == addr {
			c.mu.Unlock()
			return n
		}
	}
	c.mu.Unlock()
	var found *redis.Client
	var mu sync.Mutex
	_ = c.client.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
		if client.Options().Addr == addr {
			mu.Lock()
			defer mu.Unlock()
			found = client
		}
		return nil
	})
	if found == nil {
		return nil
	}
	return c.node(found)
}

func (c *cluster) learn(ctx context.Context) error {
	client, err := c.client.MasterForKey(ctx, "holdfast")
	if err != nil {
		return err
	}
	if err := c.tells.decide(ctx, client); err != nil {
		return err
	}
	c.known.Store(true)
	return nil
}

func (c *cluster) publish() any { return c.tells }

func (c *cluster) part(raw string) uint16 { return scripts.Slot(raw) }

func (c *cluster) suspect() { c.client.ReloadState(context.Background()) }

func (c *cluster) each(ctx context.Context, f func(n *node) error) error {
	return c.client.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error { return f(c.node(client)) })
}
