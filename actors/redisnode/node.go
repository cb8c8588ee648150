package redisnode

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Node is a server that decides about locks: the only one, or one master of a cluster.
type Node struct {
	Client redis.UniversalClient // reaches this node only
	Alone  bool                  // it decides about all keys
	Clock  Clock
	Errors *Errors

	master *redis.Client // of a cluster, as go-redis knows it
	number int           // counts the nodes of a cluster
	users  int           // of a cluster: Keep minus Forget
}

// NewNode is a node behind a client. No reply is awaited for longer than replyWait.
func NewNode(client redis.UniversalClient, replyWait time.Duration) *Node {
	return &Node{Client: bounded(client, replyWait), Errors: ErrorsOf(client)}
}

// Nodes knows which node decides about a key. Single and Cluster implement it.
type Nodes interface {
	// ForKey returns the node of a key, without asking any server; nil: call Discover first.
	ForKey(key string) *Node
	// AtAddr returns the node at an address to which the node by has redirected a call; nil: there is none.
	AtAddr(addr string, by *Node) *Node
	// Any returns a node that delivers messages which every node delivers. After a failure, try the next number. nil: call Discover first.
	Any(try int) *Node
	// Keep retains a node returned by ForKey until Forget. Another node for the same server is replaced by the retained one, which is
	// returned.
	Keep(n *Node) *Node
	Forget(n *Node)
	// Discover asks the servers which nodes there are, until ctx ends.
	Discover(ctx context.Context) error
	// Suspect has that done again in the background: something has moved.
	Suspect()
	// Time returns the servers' time, since its epoch, at one of our instants, by any node's clock.
	Time(instant time.Duration) time.Duration
	// Part returns where all keys of a name are. One script reaches the keys of one part.
	Part(raw string) uint16
	// PublishCommand returns the argument of scripts that publish a release.
	PublishCommand() any
	// Close closes the connections that are not the user's client's.
	Close()
	// Each calls f for every node, at once. It fails if the nodes cannot be asked for.
	Each(ctx context.Context, f func(n *Node)) error
}

// Single is a server that decides about all keys.
type Single struct{ node *Node }

// NewSingle is the server behind a client that is not a cluster's.
func NewSingle(client redis.UniversalClient, replyWait time.Duration) Single {
	n := NewNode(client, replyWait)
	n.Alone = true
	return Single{n}
}

func (s Single) ForKey(string) *Node                           { return s.node }
func (Single) AtAddr(string, *Node) *Node                      { return nil }
func (s Single) Any(int) *Node                                 { return s.node }
func (Single) Keep(n *Node) *Node                              { return n }
func (Single) Forget(*Node)                                    {}
func (Single) Discover(context.Context) error                  { return nil }
func (Single) Suspect()                                        {}
func (Single) Close()                                          {}
func (s Single) Time(instant time.Duration) time.Duration      { return s.node.Clock.Time(instant) }
func (Single) PublishCommand() any                             { return "PUBLISH" }
func (Single) Part(string) uint16                              { return 0 }
func (s Single) Each(_ context.Context, f func(n *Node)) error { f(s.node); return nil }
