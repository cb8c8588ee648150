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

// DiscoverWait is the time that Discover may take.
const DiscoverWait = 2 * time.Second

// ErrNoMaster is the error if the masters are known, but none of them serves a key.
var ErrNoMaster = errors.New("none is said to serve a key")

// Cluster has the masters of a Redis Cluster as go-redis knows them. If the list of masters in go-redis is older than ClusterStateReloadInterval
// (60 s by default), go-redis discovers the masters again at the next use of the list. Suspect starts a discovery earlier.
type Cluster struct {
	client    *redis.ClusterClient
	tells     *PublishMode
	replyWait time.Duration // time limit for a reply of a master
	known     atomic.Bool

	asks       chan struct{} // has an entry for each question in flight, that is, for each call of askWho that has not returned
	suspicions atomic.Int64  // 0 if no discovery is in progress; Suspect adds 1, and if it does so during a discovery, another discovery follows
	background sync.WaitGroup
	ctx        context.Context // ends with Close
	cancel     context.CancelFunc

	mu     sync.Mutex
	nodes  map[*redis.Client]*Node
	strays map[string]*Node // by address: masters without slots, which go-redis does not list
	made   int              // number of nodes made so far
	timed  *Node            // the node whose clock Time uses
	ended  bool
}

// NewCluster makes a Cluster without I/O. The parameter `tells` is the mode in which releases are published. If it is not decided yet, Discover
// decides it later.
func NewCluster(client *redis.ClusterClient, tells *PublishMode, replyWait time.Duration) *Cluster {
	ctx, cancel := context.WithCancel(context.Background())
	return &Cluster{
		client: client, tells: tells, replyWait: replyWait, asks: make(chan struct{}, asksHanging), ctx: ctx, cancel: cancel,
		nodes: map[*redis.Client]*Node{}, strays: map[string]*Node{},
	}
}

// ForKey returns the master of a key.
func (c *Cluster) ForKey(key string) *Node {
	if !c.known.Load() {
		return nil
	}
	client, err := c.client.MasterForKey(context.Background(), key) // does no I/O once the masters are known
	if err != nil {
		return nil
	}
	return c.node(client)
}

// Any returns the master of some slot. try chooses the slot.
func (c *Cluster) Any(try int) *Node { return c.ForKey(strconv.Itoa(try)) }

// node returns the node for a client of go-redis. It returns the same node for the same client until Forget or Drop, because a node holds the
// clock and the errors of its server.
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

// Time converts an instant by the clock of one master. It uses the same master as long as possible, because the clocks of masters differ.
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

// Keep adds a user to a node and returns the node. The node is retained until Forget has been called once for each call of Keep. All users of one
// server get the same node.
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

// Forget ends one use of a node. When no use is left, the node is released.
func (c *Cluster) Forget(n *Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.users--; n.users > 0 {
		return
	}
	if c.nodes[n.master] == n {
		delete(c.nodes, n.master)
	}
	if c.timed == n {
		c.timed = nil
	}
}

// Drop forgets a node whose client go-redis has closed.
func (c *Cluster) Drop(n *Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[n.master] == n {
		delete(c.nodes, n.master)
	}
}

// AtAddr returns the node at an address to which the node `by` redirects a call. A master that is about to get its first slot already receives calls
// for the slot's keys (ASK), but go-redis lists only masters that have slots. For a master that go-redis does not list, AtAddr makes a client, with
// the options and hooks of by's client.
func (c *Cluster) AtAddr(addr string, by *Node) *Node {
	host, port, _ := net.SplitHostPort(addr)
	named := optionsOf(by.Client)
	if host == "" && named != nil { // an empty host means the host of the redirecting node
		host, _, _ = net.SplitHostPort(named.Addr)
		addr = net.JoinHostPort(host, port)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var newest *Node // go-redis closes the client of a master that was away for a minute, so the clients of older nodes may be closed
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
		stray := c.newClient(&options)
		if by.master != nil {
			stray = withHooksOf(stray, by.master)
		}
		n := NewNode(stray, c.replyWait)
		n.Errors.cluster, n.master = true, by.master
		c.strays[addr] = n
	}
	return c.strays[addr]
}

// optionsOf returns the options of a client, or nil if the client is not a *redis.Client. The client of a cluster's master always is one.
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

// Close ends the discoveries in flight, and closes the clients that AtAddr has made.
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

// PublishCommand returns an argument that go-redis writes as PUBLISH or SPUBLISH, according to the mode at the time of writing.
func (c *Cluster) PublishCommand() any { return c.tells }

// Part returns the slot of the keys of a name.
func (c *Cluster) Part(raw string) uint16 { return scripts.Slot(raw) }

// Suspect discovers the masters again, in the background. Unlike ReloadState of go-redis, it asks further nodes if a node has not answered within
// askAgain. If Suspect is called during a discovery, another discovery follows after a pause, because the answer to the present one may be older
// than the call.
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
	_, _ = c.list(ctx, func(ask func()) { go ask() }) // Close does not wait for this goroutine, because the node that it asks may be silent
}
