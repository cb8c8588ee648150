package actors

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/scripts"
)

// PubSub says how releases are told.
type PubSub int

// The ways. Auto is as Redisson decides it: sharded on a cluster that can, else plain.
const (
	PubSubAuto PubSub = iota
	PubSubPlain
	PubSubSharded
)

// telling is how releases are told: by PUBLISH, or by SPUBLISH to the subscribers of one master. All who share a lock must agree, so
// on a cluster it is decided as Redisson does: sharded if the servers can. It is decided once.
type telling struct {
	auto    bool        // ask the servers; else it is decided
	asked   atomic.Bool // whether they can
	once    sync.Once
	sharded atomic.Bool
}

// MarshalBinary is the command. go-redis asks for it when it writes a script call, by when it is decided.
func (t *telling) MarshalBinary() ([]byte, error) {
	if t.sharded.Load() {
		return []byte("SPUBLISH"), nil
	}
	return []byte("PUBLISH"), nil
}

// settle decides, unless that has been done.
func (t *telling) settle(sharded bool) {
	t.once.Do(func() { t.sharded.Store(sharded) })
}

// decide asks a master whether it can, until one has answered. What it refuses for the moment is no answer. A user who may not ask has
// plain messages, as with Redisson; Check names the missing right.
func (t *telling) decide(ctx context.Context, client redis.UniversalClient) error {
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
	return client.Process(ctx, newCommand("pubsub", "shardnumsub"))
}

// isCluster asks a server whether it is part of a cluster. Every user may ask that.
func isCluster(ctx context.Context, client redis.UniversalClient) (bool, error) {
	fields, err := hello(ctx, client)
	return fields["mode"] == "cluster", err
}

// hello is what a server tells of itself.
func hello(ctx context.Context, client redis.UniversalClient) (map[any]any, error) {
	command := newCommand("hello")
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
