package redisnode

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Node is a server that decides about locks. It is the only server, or one master of a cluster.
type Node struct {
	Client     redis.UniversalClient // sends to this node only
	Hasty      redis.UniversalClient // like Client, but waits at most Silence for a reply; nil if it cannot be made
	Standalone bool                  // the node decides about all keys
	Clock      Clock
	Errors     *Errors

	master *redis.Client // in a cluster: go-redis's client for this master, or, in Cluster.strays, for the master that first redirected a call to it
	number int           // in a cluster: the nodes are numbered in the order in which they are made
	users  int           // in a cluster: calls of Keep minus calls of Forget
}

// NewNode makes a node for a client. The node waits at most replyWait for a reply.
func NewNode(client redis.UniversalClient, replyWait time.Duration) *Node {
	if single, ok := client.(*redis.Client); ok {
		handBackOnce(single) // Connected always needs this hook, but `bounded` adds it only if it must shorten the timeouts
	}
	return &Node{Client: bounded(client, replyWait), Hasty: hasty(client), Errors: ErrorsOf(client)}
}

// Nodes knows which node decides about a key. Single and Cluster implement it.
type Nodes interface {
	// ForKey returns the node of a key without asking any server, or nil if Discover must be called first.
	ForKey(key string) *Node
	// AtAddr returns the node at the address to which the node `by` has redirected a call, or nil if there is none.
	AtAddr(addr string, by *Node) *Node
	// Any returns one of the nodes. It is for plain (not sharded) messages, which every node delivers. The number `try` chooses the node: after a
	// failure, call Any with the next number. Any returns nil if Discover must be called first.
	Any(try int) *Node
	// Keep retains a node returned by ForKey until Forget is called. If another node for the same server is known already, Keep retains that one
	// instead. It returns the retained node.
	Keep(n *Node) *Node
	Forget(n *Node)
	// Drop forgets a node whose client is closed, so that AtAddr returns another node for the same server.
	Drop(n *Node)
	// Discover finds out from the servers which nodes there are. It gives up when ctx ends.
	Discover(ctx context.Context) error
	// Suspect discovers the nodes again in the background, because a slot may have moved.
	Suspect()
	// Time converts an instant of this process to Unix time. It uses the clock of one of the nodes.
	Time(instant time.Duration) time.Duration
	// Part returns the part of the cluster (the hash slot) in which all keys of a name are. One script reaches the keys of one part only.
	Part(raw string) uint16
	// PublishCommand returns the command that publishes a release. Scripts receive this command as an argument.
	PublishCommand() any
	// Close closes all connections, except those of the user's client.
	Close()
	// Each calls f for all nodes concurrently. It fails if the nodes cannot be discovered.
	Each(ctx context.Context, f func(n *Node)) error
}

// Single implements Nodes for a single server, which has all keys.
type Single struct{ node *Node }

// NewSingle makes a Single of a client that is not for a cluster.
func NewSingle(client redis.UniversalClient, replyWait time.Duration) Single {
	n := NewNode(client, replyWait)
	n.Standalone = true
	return Single{n}
}

func (s Single) ForKey(string) *Node                           { return s.node }
func (Single) AtAddr(string, *Node) *Node                      { return nil }
func (Single) Drop(*Node)                                      {}
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

// Command is a Redis command that go-redis must not repeat by itself, whatever the client's options say. Only the machine of the lock knows
// whether a repeat belongs to the same attempt.
type Command struct{ *redis.Cmd }

// NoRetry switches off the retries of go-redis for the whole pipeline.
func (Command) NoRetry() bool { return true }

// NewCommand makes a command.
func NewCommand(args ...any) Command {
	return Command{redis.NewCmd(context.Background(), args...)}
}
