package actors

import (
	"context"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/scripts"
)

// Ask calls a script about a lock and returns its reply. The script must be one that may be executed several times: Ask repeats the call until
// Redis has answered, Patience has passed, or ctx has ended.
func (e *Engine) Ask(ctx context.Context, a *lease.Address, call scripts.Call) (any, error) {
	late := e.clock.Now() + e.policy.Patience
	for failures := 1; ; failures++ {
		now := e.clock.Now()
		r, err := e.askOnce(ctx, a, &rpc.Call{Call: call, Timing: rpc.Patient(now, min(rpc.Window(e.policy.Lease), late-now), late-now)})
		if err != nil {
			return nil, err
		}
		pause := e.policy.Backoff(failures)
		switch {
		case r.Class == scripts.Done:
			return r.Reply, nil
		case r.Class == scripts.Rejected, e.clock.Now()+pause >= late:
			return nil, scripts.Explain(r.Err)
		}
		over, timer := clock.After(e.clock, pause)
		select {
		case <-over:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// askOnce makes a call, and waits for its result until ctx ends.
func (e *Engine) askOnce(ctx context.Context, a *lease.Address, c *rpc.Call) (*rpc.Result, error) {
	answer := make(answer, 1)
	c.From = answer
	e.registry.shardOf(a.Raw).lane.gateway.Submit(c)
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		c.Withdraw()
		return nil, ctx.Err()
	}
}

// answer receives the result of one call. A goroutine waits for this result.
type answer chan *rpc.Result

// Send takes the result. It does not block, because the channel has room for the only result.
func (a answer) Send(message any) { a <- message.(*rpc.Result) }
