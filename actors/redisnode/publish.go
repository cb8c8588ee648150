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

// The values of PubSub. Auto decides as Redisson does: sharded on a cluster that supports it, otherwise plain.
const (
	PubSubAuto PubSub = iota
	PubSubPlain
	PubSubSharded
)

// PublishMode says how releases are published: by PUBLISH, or by SPUBLISH to the subscribers of one master. All processes that share a lock must
// agree. So on a cluster the runtime decides once, and decides as Redisson does: sharded if the servers support it.
type PublishMode struct {
	auto    bool        // ask the servers; otherwise the user has decided
	asked   atomic.Bool // a server was asked
	once    sync.Once
	sharded atomic.Bool
}

// NewPublishMode makes a mode. Unless p is PubSubAuto, the mode is decided already.
func NewPublishMode(p PubSub) *PublishMode {
	t := &PublishMode{auto: p == PubSubAuto}
	t.sharded.Store(p == PubSubSharded)
	return t
}

// IsSharded reports whether messages are sharded. It returns false until the mode is decided.
func (t *PublishMode) IsSharded() bool { return t.sharded.Load() }

// WasAsked reports whether a server was asked about sharded messages.
func (t *PublishMode) WasAsked() bool { return t.asked.Load() }

// Server returns the only node that delivers the messages of a channel, or nil if every node delivers them. known is false before Discover.
func (t *PublishMode) Server(m Nodes, channel string) (n *Node, known bool) {
	n = m.ForKey(channel)
	if n != nil && !t.IsSharded() {
		return nil, true
	}
	return n, n != nil
}

// MarshalBinary returns the command. go-redis calls it when it writes a script call. By then the mode is decided.
func (t *PublishMode) MarshalBinary() ([]byte, error) {
	if t.sharded.Load() {
		return []byte("SPUBLISH"), nil
	}
	return []byte("PUBLISH"), nil
}

// settle decides the mode, unless it is decided already.
func (t *PublishMode) settle(sharded bool) {
	t.once.Do(func() { t.sharded.Store(sharded) })
}

// decide asks a master whether it supports sharded messages. The first answer settles the mode. If the master gives no answer, or refuses only for
// now, decide returns the error, and the mode stays undecided. If the user has no right to ask, messages are plain, as in Redisson; Runtime.Check
// names the missing right.
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

// isNever reports whether a refusal is permanent.
func isNever(err error) bool {
	if scripts.Classify(err) != scripts.Rejected {
		return false
	}
	code, _, _ := strings.Cut(scripts.Reply(err), " ")
	return code == "ERR" || code == "NOPERM"
}

// askSharded fails if the server does not support sharded messages.
func askSharded(ctx context.Context, client redis.UniversalClient) error {
	return client.Process(ctx, NewCommand("pubsub", "shardnumsub"))
}

// isCluster asks a server whether it belongs to a cluster. Every user has the right to ask that.
func isCluster(ctx context.Context, client redis.UniversalClient) (bool, error) {
	fields, err := Hello(ctx, client)
	return fields["mode"] == "cluster", err
}

// Hello returns the fields of the reply to HELLO.
func Hello(ctx context.Context, client redis.UniversalClient) (_ map[any]any, err error) {
	defer RecoverTo(&err)
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
