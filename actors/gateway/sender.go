package gateway

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/redisnode"
)

// Config is what the gateways of a runtime share.
type Config struct {
	Ctx    context.Context // of everything that asks Redis
	Clock  clock.Clock
	Root   *actor.RootContext
	Events *outbox.Events
	Nodes  redisnode.Nodes
	Errors *redisnode.Errors

	Lease       time.Duration
	AckReplicas int           // that must acknowledge a grant
	AckTimeout  time.Duration // how long they are waited for
	FirstMark   uint64        // random: two runtimes must not use the same marks

	Pause        func(failures int) time.Duration           // between two attempts to reach Redis
	Props        func(producer actor.Producer) *actor.Props // of an actor
	OnDiscovered func()                                     // is called when the masters of a cluster have been discovered
}

// Sender sends batches of calls to Redis, for all gateways of a runtime.
type Sender struct {
	Config
	Renewer *actor.PID // is sent Recovered; set before the first call
	peaks   redisnode.Peaks
	marks   atomic.Uint64 // of pipelines
	heard   atomic.Uint64 // counts the batches that have reached Redis
}

// NewSender makes one that has sent nothing.
func NewSender(c Config) *Sender {
	s := &Sender{Config: c}
	s.marks.Store(c.FirstMark)
	return s
}

// Heard counts the batches that have reached Redis.
func (s *Sender) Heard() uint64 { return s.heard.Load() }

// Options are what a gateway is for.
type Options struct {
	RenewalsFirst bool // after an outage it waits until renewals have been answered
	ForReplicas   bool // what it sends waits for replicas
}

// New makes the actor that sends calls: a gateway, or on a cluster one for each master.
func New(s *Sender, o Options) actor.Actor {
	if cluster, ok := s.Nodes.(*redisnode.Cluster); ok {
		return newClusterGateway(s, cluster, o)
	}
	return newGateway(s, s.Nodes.ForKey(""), o)
}
