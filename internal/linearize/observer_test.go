package linearize

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// replying is a hook that calls a function for each command instead of sending it.
type replying func(cmd *redis.Cmd)

func (r replying) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r replying) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		r(cmd.(*redis.Cmd))
		return nil
	}
}

func (r replying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The observer looks once more after the context has ended. This holds even if the context ends during a look, because that look may have missed the
// last changes.
func TestObserver_LooksOnceMoreAfterTheEnd(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	client := locktest.ClientWith(t, &redis.Options{})
	client.AddHook(replying(func(cmd *redis.Cmd) {
		cmd.SetVal([]any{[]any{"1", "0"}}) // no names, so there is only the server's time
		end()
	}))
	r := &run{}
	r.observe(ctx, client)
	assert.Len(t, r.recorded().Looks, 2)
}
