package redisnode

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/scripts"
)

// PubSub says how releases are published.
type PubSub int

// The ways. Auto is as Redisson decides it: sharded on a cluster that can, else plain.
const (
	PubSubAuto PubSub = iota
	PubSubPlain
	PubSubSharded
)

// PublishMode is how releases are published: by PUBLISH, or by SPUBLISH to the subscribers of one master. All processes that share a lock
// must agree, so on a cluster it is decided once, as Redisson does: sharded if the servers can.
type PublishMode struct {
	auto    bool        // ask the servers; else it is decided
	asked   atomic.Bool // whether they can
	once    sync.Once
	sharded atomic.Bool
}

// NewPublishMode is decided already, unless p leaves it to the servers.
func NewPublishMode(p PubSub) *PublishMode {
	t := &PublishMode{auto: p == PubSubAuto}
	t.sharded.Store(p == PubSubSharded)
	return t
}

// IsSharded reports whether messages are sharded; not until that is decided.
func (t *PublishMode) IsSharded() bool { return t.sharded.Load() }

// WasAsked reports whether a server was asked whether it can.
func (t *PublishMode) WasAsked() bool { return t.asked.Load() }

// Server returns the node that alone delivers the messages of a channel; nil: every server does. known is false before Discover.
func (t *PublishMode) Server(m Nodes, channel string) (n *Node, known bool) {
	n = m.ForKey(channel)
	if n != nil && !t.IsSharded() {
		return nil, true
	}
	return n, n != nil
}

// MarshalBinary is the command. go-redis asks for it when it writes a script call, by when it is decided.
func (t *PublishMode) MarshalBinary() ([]byte, error) {
	if t.sharded.Load() {
		return []byte("SPUBLISH"), nil
	}
	return []byte("PUBLISH"), nil
}

// settle decides, unless that has been done.
func (t *PublishMode) settle(sharded bool) {
	t.once.Do(func() { t.sharded.Store(sharded) })
}

// decide asks a master whether it can, until one has answered. What it refuses for the moment is no answer. A user who may not ask has
// plain messages, as with Redisson; Check names the missing right.
func (t *PublishMode) decide(ctx context.Context, client redis.UniversalClient) error {
	if !t.auto {
		return nil
	}
	t.asked.Store(true)
	err := askSharded(ctx, client)
	if err != nil && !isNever(err) {
		return err
	}
	t.settle(err == nil)
	return nil
}

// isNever reports whether the server will not reply otherwise by itself.
func isNever(err error) bool {
	if scripts.Classify(err) != scripts.Rejected {
		return false
	}
	code, _, _ := strings.Cut(scripts.Reply(err), " ")
	return code == "ERR" || code == "NOPERM"
}

// askSharded fails where messages cannot be sharded.
func askSharded(ctx context.Context, client redis.UniversalClient) error {
	return client.Process(ctx, NewCommand("pubsub", "shardnumsub"))
}

// isCluster asks a server whether it is part of a cluster. Every user may ask that.
func isCluster(ctx context.Context, client redis.UniversalClient) (bool, error) {
	fields, err := Hello(ctx, client)
	return fields["mode"] == "cluster", err
}

// Hello returns what a server says of itself.
func Hello(ctx context.Context, client redis.UniversalClient) (map[any]any, error) {
	command := NewCommand("hello")
	_ = client.Process(ctx, command)
	reply, err := command.Result()
	fields := map[any]any{}
	switch reply := reply.(type) {
	case map[any]any:
		fields = reply
	case []any: // RESP2
		for i := 1; i < len(reply); i += 2 {
			fields[reply[i-1]] = reply[i]
		}
	}
	return fields, err
}
