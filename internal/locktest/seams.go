package locktest

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors"
)

// SystemWith is an actor system for a runtime with seams. It ends with the test.
func SystemWith(t *testing.T, seams *actors.Seams) *actor.ActorSystem {
	system := actor.NewActorSystem()
	t.Cleanup(system.Shutdown)
	system.Extensions.Register(seams)
	return system
}
