package redisnode

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Command is a Redis command that go-redis must not send twice on its own, whatever the client's options say: only the lock
// actor knows whether a repeat is the same attempt.
type Command struct{ *redis.Cmd }

// NoRetry switches go-redis's retries off for the whole pipeline.
func (Command) NoRetry() bool { return true }

// NewCommand is a command that has not been sent.
func NewCommand(args ...any) Command {
	return Command{redis.NewCmd(context.Background(), args...)}
}
