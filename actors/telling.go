package actors

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
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
// on a cluster it is decided as Redisson does: sharded if the servers can.
type telling struct {
	auto    bool // ask the servers; else it is decided
	sharded atomic.Bool
}

// MarshalBinary is the command. go-redis asks for it when it writes a script call, by when it is decided.
func (t *telling) MarshalBinary() ([]byte, error) {
	if t.sharded.Load() {
		return []byte("SPUBLISH"), nil
	}
	return []byte("PUBLISH"), nil
}

// decide asks a master whether it can, until one has answered.
func (t *telling) decide(ctx context.Context, client *redis.Client) error {
	if !t.auto {
		return nil
	}
	err := client.Process(ctx, newCommand("pubsub", "shardnumsub"))
	if err == nil {
		t.sharded.Store(true)
	} else if !isReply(err) {
		return err
	}
	return nil
}
