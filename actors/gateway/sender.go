package gateway

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/trace"
)

// Config is shared by all gateways of a runtime.
type Config struct {
	Ctx      context.Context // the context of all calls to Redis
	Clock    clock.Clock
	Events   *outbox.Events
	Recorder *trace.Recorder
	Nodes    redisnode.Nodes
	Errors   *redisnode.Errors

	Lease       time.Duration
	AckReplicas int           // how many replicas must acknowledge a grant
	AckTimeout  time.Duration // how long to wait for their acknowledgement
	FirstMark   uint64        // random, because two runtimes must not use the same marks

	Pause        func(failures int) time.Duration // the pause between two attempts to reach Redis
	OnDiscovered func()                           // called when the masters of a cluster have been discovered
}

// Sender sends batches of calls to Redis, for all gateways of a runtime.
type Sender struct {
	Config
	Renewer rpc.Caller // gets Recovered; set before the first call
	peaks   redisnode.Peaks
	marks   atomic.Uint64 // the last mark of a pipeline
	heard   atomic.Uint64 // counts the batches that have reached Redis
}

// NewSender makes a Sender.
func NewSender(c Config) *Sender {
	s := &Sender{Config: c}
	s.marks.Store(c.FirstMark)
	return s
}

// Heard counts the batches that have reached Redis.
func (s *Sender) Heard() uint64 { return s.heard.Load() }

// Options say what a gateway is for.
type Options struct {
	RenewalsFirst bool // after an outage the gateway waits until the renewals have been answered
	ForReplicas   bool // replicas must acknowledge the grants of its calls
}

// New starts a gateway. On a cluster it starts a common one that forwards to a gateway for each master.
func New(s *Sender, o Options) Gateway {
	if cluster, ok := s.Nodes.(*redisnode.Cluster); ok {
		return newClusterGateway(s, cluster, o)
	}
	g := newGateway(s, s.Nodes.ForKey(""), o)
	g.startWorker()
	return g
}
