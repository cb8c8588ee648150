package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/extensions"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// Seams are where a simulation puts its own chance and its own time into the runtimes that live in an actor system. Zero fields
// change nothing.
type Seams struct {
	ID     string
	First  uint64 // the number that grants, owners and leases count from
	Clock  clock.Clock
	Jitter func(time.Duration) time.Duration
	Salt   func() uint64            // the random part of a grant's number
	Shard  func(name string) uint64 // says which router a name belongs to

	Between func(ctx context.Context) // is called between the steps of a multi lock, with its caller's context
}

var seamsID = extensions.NextExtensionID()

// ExtensionID makes it an extension of an actor system.
func (*Seams) ExtensionID() extensions.ExtensionID { return seamsID }

// SeamsOf are those that were registered with an actor system; none: the zero value.
func SeamsOf(system *actor.ActorSystem) Seams {
	if system != nil {
		if s, ok := system.Extensions.Get(seamsID).(*Seams); ok {
			return *s
		}
	}
	return Seams{}
}
