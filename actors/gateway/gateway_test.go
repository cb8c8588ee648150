package gateway

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
)

// A deadline's timer that fires while the gateway stops must not hire a worker that nobody waits for.
func TestGateway_StoppedChecksNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(NewSender(Config{Clock: clock.NewSystem()}), &redisnode.Node{}, Options{})
	b := &batch{calls: []*rpc.Call{{}}, claims: make([]claim, 1)}
	b.claims[0].taken.Store(true) // its outcome is unknown: it hangs
	g.inFlight = append(g.inFlight, b)
	<-g.Stop()
	g.check()
	assert.Zero(t, g.stuck)
	assert.False(t, b.given)
}
