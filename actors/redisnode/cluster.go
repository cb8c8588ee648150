package redisnode

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/scripts"
)

// DiscoverWait is how long Discover may take.
const DiscoverWait = 2 * time.Second

// ErrNoMaster is why a key has no node although the nodes are known.
var ErrNoMaster = errors.New("none is said to serve a key")

// Cluster is the masters of a Redis Cluster, as go-redis knows them: it asks for them again every ten seconds, and on Suspect.
type Cluster struct {
	client    *redis.ClusterClient
	tells     *PublishMode
	replyWait time.Duration // of a master
	known     atomic.Bool

	asks       chan struct{} // is full when no more may ask for the masters
	suspicions atomic.Int64  // since the masters are being asked for; 0: they are not
	background sync.WaitGroup
	ctx        context.Context // ends with close
	cancel     context.CancelFunc

	mu     sync.Mutex
	nodes  map[*redis.Client]*Node
	strays map[string]*Node // by address: masters without slots, which go-redis does not tell of
	made   int              // nodes so far
	timed  *Node            // the first one whose clock is known
	ended  bool
}

// NewCluster asks no server yet. tells is decided by Discover.
func NewCluster(client *redis.ClusterClient, tells *PublishMode, replyWait time.Duration) *Cluster {
	ctx, cancel := context.WithCancel(context.Background())
	return &Cluster{
		client: client, tells: tells, replyWait: replyWait, asks: make(chan struct{}, asksMax), ctx: ctx, cancel: cancel,
		nodes: map[*redis.Client]*Node{}, strays: map[string]*Node{},
	}
}

// ForKey returns the master of a key.
func (c *Cluster) ForKey(key string) *Node {
	if !c.known.Load() {
		return nil
	}
	client, err := c.client.MasterForKey(context.Background(), key) // asks nobody, once it is known
	if err != nil {
		return nil
	}
	return c.node(client)
}

// Any returns the master of one slot or another.
func (c *Cluster) Any(try int) *Node { return c.ForKey(strconv.Itoa(try)) }

func (c *Cluster) node(client *redis.Client) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[client]
	if n == nil {
		n = NewNode(client, c.replyWait)
		c.made++
		n.Errors.cluster, n.master, n.number = true, client, c.made
		c.nodes[client] = n
	}
	return n
}

// Time returns the time of the first master whose clock is known, which stays the same one.
func (c *Cluster) Time(instant time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if c.timed != nil {
			break
		}
		if n.Clock.Known() {
			c.timed = n
		}
	}
	if c.timed == nil {
		return instant
	}
	return c.timed.Clock.Time(instant)
}

// Keep retains a node until as many calls of Forget. All users of one server get the same node.
func (c *Cluster) Keep(n *Node) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[n.master] == nil {
		c.nodes[n.master] = n
	}
	n = c.nodes[n.master]
	n.users++
	return n
}

// Forget ends one use of a node. The last one releases it.
func (c *Cluster) Forget(n *Node) {
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

// AtAddr returns the node at an address. go-redis only knows masters that have slots. A master that is just getting its first one is
// asked for its keys already, with a client of our own, which has the options of the redirecting node's.
func (c *Cluster) AtAddr(addr string, by *Node) *Node {
	host, port, _ := net.SplitHostPort(addr)
	named := optionsOf(by.Client)
	if host == "" && named != nil { // Redis means the host that it was reached at
		host, _, _ = net.SplitHostPort(named.Addr)
		addr = net.JoinHostPort(host, port)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var newest *Node // go-redis has closed its clients for those before, which had been away for a minute
	for client, n := range c.nodes {
		if client.Options().Addr == addr && (newest == nil || n.number > newest.number) {
			newest = n
		}
	}
	if newest != nil {
		return newest
	}
	if c.strays[addr] == nil && named != nil && !c.ended {
		options := *named
		options.Addr = addr
		c.strays[addr] = NewNode(c.newClient(&options), c.replyWait)
		c.strays[addr].Errors.cluster = true
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

func (c *Cluster) newClient(options *redis.Options) *redis.Client {
	if c.client.Options().NewClient != nil {
		return c.client.Options().NewClient(options)
	}
	return redis.NewClient(options)
}

// Close ends the questions on their way, and closes our own clients.
func (c *Cluster) Close() {
	c.cancel()
	c.background.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, n := range c.strays {
		_ = n.Client.Close()
	}
}

// PublishCommand returns what becomes PUBLISH or SPUBLISH when it is written.
func (c *Cluster) PublishCommand() any { return c.tells }

// Part returns the slot.
func (c *Cluster) Part(raw string) uint16 { return scripts.Slot(raw) }

// Suspect has go-redis ask for the masters again, in the background: of several nodes at once while some of them are silent, which
// ReloadState does not do. A suspicion while they are asked has them be asked once more, after a pause.
func (c *Cluster) Suspect() {
	if c.suspicions.Add(1) > 1 {
		return
	}
	go func() {
		for seen := int64(1); ; seen = c.suspicions.Load() {
			c.askAround()
			select {
			case <-c.ctx.Done():
				return
			case <-time.After(suspectAgain):
			}
			if c.suspicions.CompareAndSwap(seen, 0) {
				return
			}
		}
	}()
}

func (c *Cluster) askAround() {
	ctx, cancel := context.WithTimeout(c.ctx, DiscoverWait)
	defer cancel()
	_, _ = c.list(ctx, func(ask func()) { go ask() }) // Close does not wait for silent nodes
}
