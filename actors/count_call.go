package actors

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// The handles of semaphores and latches call these methods.

// Count carries out an operation on a semaphore or latch. The parameter `number` says how many permits to take or give, or is the value to set. If
// the operation does not wait, the result is the number in Redis' reply.
//
// If the operation has ended leases of this process, their holders know that when Count returns.
//
// Count returns when the operation is answered, or when ctx ends. If the operation gives something back (scripts.Give), Count waits up to
// releaseGrace longer after the end of ctx. If there is still no answer, the operation continues in the background.
func (e *Engine) Count(ctx context.Context, a *lease.Address, op *scripts.CountOp, number int64, try bool) (int64, error) {
	r := e.requests.take(wait.Count, a)
	r.Count, r.Number, r.Try = op, number, try
	e.asks(ctx, r)
	if r.Err = e.mayCount(ctx, r); r.Err != nil {
		err := r.Err
		e.ends(r)
		e.requests.put(r)
		return 0, err
	}
	if !try && lasts(ctx) {
		r.Offer.Make()
	}
	e.registry.request(r)
	e.sendLeft(r)
	grace := time.Duration(0)
	if op.Way == scripts.Give {
		grace = releaseGrace
	}
	number, err := e.await(ctx, r, grace, true)
	if op.Ends {
		e.awaitHolders(a)
	}
	return number, err
}

// mayCount returns an error if the operation must not be sent, because the engine is closing or ctx has ended. An operation that gives something
// back is sent even if ctx has ended.
func (e *Engine) mayCount(ctx context.Context, r *wait.Request) error {
	err := ctx.Err()
	switch {
	case e.closing.Load():
		return r.Because(protocol.ErrClosed)
	case err == nil, r.Count.Way == scripts.Give:
		return nil
	case r.Count.Way == scripts.Take:
		return r.Because(fmt.Errorf("%w: %w", protocol.ErrNotAcquired, err))
	}
	return r.Because(err)
}
