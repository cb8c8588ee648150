package actors

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// routed is a router and what it sends to its lock actors, which are made up.
type routed struct {
	actor.Context
	router  *router
	message any
	locks   []*actor.PID // that were spawned, one after the other
	sent    []any        // to the last of them
}

func newRouted() *routed {
	return &routed{router: newRouter(&Engine{sweepEvery: sweepEvery, clock: clock.NewSystem()}, &lane{})}
}

func (c *routed) take(message any) {
	c.message = message
	c.router.Receive(c)
}

func (c *routed) Message() any                   { return c.message }
func (c *routed) Self() *actor.PID               { return actor.NewPID("here", "router") }
func (c *routed) Send(_ *actor.PID, message any) { c.sent = append(c.sent, message) }

func (c *routed) SpawnNamed(_ *actor.Props, name string) (*actor.PID, error) {
	c.locks, c.sent = append(c.locks, actor.NewPID("here", name)), nil
	return c.locks[len(c.locks)-1], nil
}

// retire asks the lock actor to retire.
func (c *routed) retire() (dying *slot) {
	dying = c.router.byPID[c.locks[len(c.locks)-1].Id]
	dying.used = false
	c.router.idle = append(c.router.idle, dying)
	c.take(sweep{})
	return dying
}

func (c *routed) request() *wait.Request {
	return &wait.Request{Do: wait.Acquire, Address: &lease.Address{Kind: scripts.Lock, Name: "orders", Raw: "orders"}, Answered: make(chan struct{}, 1)}
}

// What comes while a lock actor may end reaches it, or the next one, in the order in which it came: the request and its cancel.
func TestRouter_KeepsTheOrderWhileALockActorMayEnd(t *testing.T) {
	t.Parallel()
	for end, locks := range map[string]int{"it stays": 1, "it ends": 2} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			c := newRouted()
			c.take(c.request())
			dying := c.retire()
			assert.Equal(t, wait.TryRetire{}, c.sent[len(c.sent)-1])
			c.sent = nil
			r := c.request()
			kept := []any{r, wait.CancelRequest{Request: r}, cancelByID{address: r.Address, id: 7}}
			for _, m := range kept {
				c.router.route(c, m)
			}
			assert.Empty(t, c.sent)
			if locks == 1 {
				c.take(lockStays{dying})
			} else {
				c.take(&actor.Terminated{Who: dying.pid})
			}
			assert.Len(t, c.locks, locks)
			assert.Equal(t, kept, c.sent)
		})
	}
}

// A lock actor that did not retire ends when the runtime closes. What was kept for it comes too late then, and is refused.
func TestRouter_RefusesWhatItKeptWhenItCloses(t *testing.T) {
	t.Parallel()
	c := newRouted()
	c.take(c.request())
	dying := c.retire()
	r := c.request()
	c.take(r)
	c.take(closeRouter{wait.Closing})
	c.sent = nil
	c.take(lockStays{dying})
	assert.NotContains(t, c.sent, r)
	require.Len(t, r.Answered, 1)
	assert.ErrorIs(t, r.Err, protocol.ErrClosed)
}
