package redisnode

import (
	"context"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
)

// withTimeout returns a client with the same connections and hooks, and other timeouts.
//
// WithTimeout of go-redis does not copy the hooks, and one of them may put a prefix before all keys. go-redis does not tell which hooks a client
// has, but it runs them around the client's own commands. So the new client sends each command through the old client. The last hook of the old
// client is handBack, which hands the command back to the new client. The old client keeps this hook, which does nothing for other commands.
func withTimeout(client *redis.Client, timeout time.Duration) *redis.Client {
	handBackOnce(client)
	bounded := client.WithTimeout(timeout)
	bounded.AddHook(through{client})
	return bounded
}

// through sends the commands of a client through the hooks of another client.
type through struct{ client *redis.Client }

type (
	processKey  struct{} // the context key of the redis.ProcessHook that gets the command back
	pipelineKey struct{} // the context key of the redis.ProcessPipelineHook, for a pipeline
)

func (through) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t through) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		return t.client.Process(context.WithValue(ctx, processKey{}, next), command)
	}
}

func (t through) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		pipe := t.client.Pipeline()
		for _, command := range commands {
			_ = pipe.Process(ctx, command)
		}
		_, err := pipe.Exec(context.WithValue(ctx, pipelineKey{}, next))
		return err
	}
}

// handBack is the last hook of a client.
type handBack struct{}

func (handBack) DialHook(next redis.DialHook) redis.DialHook { return next }

func (handBack) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if back, ok := ctx.Value(processKey{}).(redis.ProcessHook); ok {
			return back(ctx, command)
		}
		return next(ctx, command)
	}
}

func (handBack) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if back, ok := ctx.Value(pipelineKey{}).(redis.ProcessPipelineHook); ok {
			return back(ctx, commands)
		}
		return next(ctx, commands)
	}
}

// handsBack holds the clients that have the hook handBack.
var handsBack sync.Map // of weak.Pointer[redis.Client]

// handBackOnce adds the hook, once per client. It refers to the client weakly, so that the user's client can be collected.
func handBackOnce(client *redis.Client) {
	known := weak.Make(client)
	if _, has := handsBack.LoadOrStore(known, struct{}{}); has {
		return
	}
	client.AddHook(handBack{})
	runtime.AddCleanup(client, func(gone weak.Pointer[redis.Client]) { handsBack.Delete(gone) }, known)
}
