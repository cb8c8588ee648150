package actors

import (
	"context"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// lastMoment is a clock with which an engine ends, having answered, when somebody sets a timer.
type lastMoment struct{ ends func() }

func (*lastMoment) Now() time.Duration { return 0 }

func (c *lastMoment) AfterFunc(time.Duration, func()) clock.Timer {
	c.ends()
	return noTimer{}
}

// Whoever gives permits back while the engine ends learns that they have arrived when the answer says so, not that the engine is closed:
// the caller would release them again elsewhere.
func TestCount_AnswerGoesBeforeTheEnd(t *testing.T) {
	t.Parallel()
	system := actor.NewActorSystem()
	t.Cleanup(system.Shutdown)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // Go chooses by chance
		asked := make(chan *wait.Request, 1)
		clock := &lastMoment{}
		e := &Engine{root: system.Root, clock: clock, shard: func(string) uint64 { return 0 }, done: make(chan struct{})}
		address := &lease.Address{Kind: scripts.Semaphore, Name: "orders", Raw: "orders"}
		e.registry = newRegistry(e)
		e.registry.shards[0].members[keyOf(address)] = &member{pid: system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			if r, ok := c.Message().(*wait.Request); ok {
				asked <- r
			}
		}))}
		clock.ends = func() {
			r := <-asked
			r.Number = 7
			close(e.done)
			e.answer(r)
		}
		number, err := e.Count(ended, address, scripts.SemaphoreRelease, 1, false)
		assert.NoError(t, err)
		assert.EqualValues(t, 7, number)

		clock.ends = func() { <-asked; close(e.done) }
		e.done = make(chan struct{})
		_, err = e.Count(ended, address, scripts.SemaphoreRelease, 1, false)
		assert.ErrorIs(t, err, protocol.ErrClosed)
	}
}

type noTimer struct{}

func (noTimer) Stop() bool               { return true }
func (noTimer) Reset(time.Duration) bool { return true }
