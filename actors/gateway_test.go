package actors

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A deadline's timer that fires while the gateway stops must not hire a worker that nobody waits for.
func TestGateway_StoppedChecksNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(&Engine{clock: NewSystemClock()}, &node{}, outlet{})
	b := &batch{calls: []*scriptCall{{}}, claims: make([]claim, 1)}
	b.claims[0].taken.Store(true) // its outcome is unknown: it hangs
	g.flying = append(g.flying, b)
	done := make(chan struct{})
	g.stop(done)
	<-done
	g.check(nil)
	assert.Zero(t, g.hanging)
	assert.False(t, b.given)
}
