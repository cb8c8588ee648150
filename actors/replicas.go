package actors

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
)

// waitForReplicas puts a WAIT behind the scripts of a batch whose grants replicas have to acknowledge; on their connection, because
// Redis waits for what that one has written. nil: there is none.
func (e *Engine) waitForReplicas(b *batch, pipe redis.Pipeliner) *command {
	if !b.acked {
		return nil
	}
	wait := newCommand("wait", e.policy.AckReplicas, e.policy.AckTimeout.Milliseconds())
	_ = pipe.Process(b.ctx, wait)
	return &wait
}

// unacked says why a WAIT does not show that enough replicas have what was written; nil: it does.
func (e *Engine) unacked(wait *command) error {
	if wait == nil {
		return nil
	}
	n, err := wait.Int()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", protocol.ErrNotReplicated, e.causes.explain(err))
	case n < e.policy.AckReplicas:
		return fmt.Errorf("%w: %d replicas of %d have acknowledged within %v, it was undone", protocol.ErrNotReplicated, n, e.policy.AckReplicas, e.policy.AckTimeout)
	}
	return nil
}
