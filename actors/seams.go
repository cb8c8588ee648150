package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/extensions"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// Seams let a simulation replace the randomness and the clock of the runtimes in an actor system. A zero field changes nothing.
type Seams struct {
	ID     string
	First  uint64 // the number from which grants, owners and leases are numbered
	Clock  clock.Clock
	Jitter func(time.Duration) time.Duration
	Salt   func() uint64            // the random part of a grant's number
	Shard  func(name string) uint64 // chooses the registry's shard of a name

	Between func(ctx context.Context) // called between two steps of an operation on a multi lock, with that operation's context
}

var seamsID = extensions.NextExtensionID()

// ExtensionID makes Seams an extension of an actor system.
func (*Seams) ExtensionID() extensions.ExtensionID { return seamsID }

// SeamsOf returns the seams that were registered with an actor system, or the zero value.
func SeamsOf(system *actor.ActorSystem) Seams {
	if system != nil {
		if s, ok := system.Extensions.Get(seamsID).(*Seams); ok {
			return *s
		}
	}
	return Seams{}
}
