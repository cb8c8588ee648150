package actors

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// node is a server that decides about locks: the only one, or one master of a cluster.
type node struct {
	client redis.UniversalClient // that this node alone is reached by
	alone  bool                  // it decides about all keys
	clock  serverClock
	causes *causes

	master *redis.Client // of a cluster, as go-redis knows it
	users  int           // that have kept it; the cluster's
}

func newOnlyNode(client redis.UniversalClient) onlyNode {
	n := newNode(client)
	n.alone = true
	return onlyNode{n}
}

func newNode(client redis.UniversalClient) *node {
	return &node{client: bounded(client), causes: causesOf(client)}
}

// masters knows which node decides about a key.
type masters interface {
	// of is the node of a key, without asking anybody; nil: learn first.
	of(key string) *node
	// at is the node at an address that another node has named; nil: there is none.
	at(addr string, by *node) *node
	// any is a node that brings messages which every node tells; after a failure the next one is asked for. nil: learn first.
	any(try int) *node
	// keep remembers a node that has come from of, until forget: another one for the same server is the same.
	keep(n *node) *node
	forget(n *node)
	// learn asks the servers, for as long as that takes.
	learn(ctx context.Context) error
	// suspect says that what was known may have changed. It does not block.
	suspect()
	// time is the servers' time at one of our instants, by any of their clocks.
	time(instant time.Duration) time.Duration
	// part is where all keys of a name are; one script reaches no other.
	part(raw string) uint16
	// publish is the argument of scripts that tell of a release.
	publish() any
	// close ends the connections that are not those of the user's client.
	close()
	// each calls f for every node.
	each(ctx context.Context, f func(n *node) error) error
}

// onlyNode is a server that decides about all keys.
type onlyNode struct{ node *node }

func (o onlyNode) of(string) *node                                     { return o.node }
func (onlyNode) at(string, *node) *node                                { return nil }
func (o onlyNode) any(int) *node                                       { return o.node }
func (onlyNode) keep(n *node) *node                                    { return n }
func (onlyNode) forget(*node)                                          {}
func (onlyNode) learn(context.Context) error                           { return nil }
func (onlyNode) suspect()                                              {}
func (onlyNode) close()                                                {}
func (o onlyNode) time(instant time.Duration) time.Duration            { return o.node.clock.time(instant) }
func (onlyNode) publish() any                                          { return "PUBLISH" }
func (onlyNode) part(string) uint16                                    { return 0 }
func (o onlyNode) each(_ context.Context, f func(n *node) error) error { return f(o.node) }
