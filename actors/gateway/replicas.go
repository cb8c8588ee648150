package gateway

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/protocol"
)

// waitForReplicas returns the WAIT that follows the scripts of a batch if replicas must acknowledge its grants. The WAIT has to use the same
// connection, because WAIT covers the writes of its own connection. The time is rounded up, because WAIT waits for ever if it is 0.
func (s *Sender) waitForReplicas() redisnode.Command {
	return redisnode.NewCommand("wait", s.AckReplicas, (s.AckTimeout + time.Millisecond - 1).Milliseconds())
}

// unacked returns an error unless the WAIT shows that enough replicas have what was written.
func (s *Sender) unacked(wait redisnode.Command) error {
	n, err := wait.Int()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", protocol.ErrNotReplicated, s.Errors.Explain(err))
	case n < s.AckReplicas:
		return fmt.Errorf("%w: %d replicas of %d have acknowledged within %v, it was undone", protocol.ErrNotReplicated, n, s.AckReplicas, s.AckTimeout)
	}
	return nil
}
