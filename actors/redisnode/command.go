package redisnode

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Command is a Redis command that go-redis must not repeat by itself, whatever the client's options say. Only the machine of the lock knows
// whether a repeat is the same attempt.
type Command struct{ *redis.Cmd }

// NoRetry switches off the retries of go-redis for the whole pipeline.
func (Command) NoRetry() bool { return true }

// NewCommand makes a command.
func NewCommand(args ...any) Command {
	return Command{redis.NewCmd(context.Background(), args...)}
}
