package locktest

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors"
)

// SystemWith returns an actor system with seams for a runtime. It ends with the test.
func SystemWith(t *testing.T, seams *actors.Seams) *actor.ActorSystem {
	system := actor.NewActorSystem()
	t.Cleanup(system.Shutdown)
	system.Extensions.Register(seams)
	return system
}
