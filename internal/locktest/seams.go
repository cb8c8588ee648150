package locktest

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors"
)

// SystemWith returns an actor system, which is shut down when the test ends. Its runtimes use these seams instead of the real clock, random numbers
// and so on: see actors.Seams.
func SystemWith(t *testing.T, seams *actors.Seams) *actor.ActorSystem {
	system := actor.NewActorSystem()
	t.Cleanup(system.Shutdown)
	system.Extensions.Register(seams)
	return system
}
