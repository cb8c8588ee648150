package locktest

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// CountPipelines is a client hook that counts the pipelines that are sent.
type CountPipelines struct{ N atomic.Int64 }

func (c *CountPipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (c *CountPipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *CountPipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		c.N.Add(1)
		return next(ctx, commands)
	}
}
