package load

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// far is a time limit that no acquire reaches. There must be one: without a deadline, redislock stops waiting after the length of its lease.
const far = time.Hour

// step executes an Acquire or Release order. It calls the function `do`, and reports the time or the error that `do` returns.
func (c *child) step(client int, do func(client int) (time.Time, error)) {
	at, err := do(client)
	if err != nil {
		c.report(Report{Event: Failed, Error: err.Error(), Client: client})
		return
	}
	c.report(Report{Event: At, Client: client, At: at.UnixNano()})
}

// acquire acquires the hot lock and returns the instant at which the client has it. The context lives as long as the hold, because some
// contenders end the hold with the context.
func (c *child) acquire(client int) (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), far)
	held, err := c.clients[client].Acquire(ctx, peer.Exclusive, c.order.Workload.NameOf(c.order.Prefix, 0))
	at := time.Now()
	if err != nil {
		cancel()
		return at, err
	}
	c.holding[client] = hold{held, cancel}
	return at, nil
}

// hold is a lock that a client holds by order of the harness.
type hold struct {
	peer.Held
	end context.CancelFunc
}

// release releases the lock and returns the instant at which the release began.
func (c *child) release(client int) (time.Time, error) {
	h, at := c.holding[client], time.Now()
	err := h.Release(context.Background())
	h.end()
	return at, err
}
