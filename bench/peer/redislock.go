package peer

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

var redislockPeer = &Peer{
	Name: "redislock",
	About: "bsm/redislock on a plain go-redis pool of one connection per goroutine, at least 20 and at most 128; " +
		"LinearBackoff of 1, 10 or 100 ms, whichever gives the best figures in the workload; a context with a deadline, without which it would stop waiting after its TTL",
	Source:  "redislock's README (LinearBackoff); its option documentation (deadline), its example (100 ms); pool size and backoff: the best of those tried",
	Role:    Library,
	Kinds:   exclusiveOnly,
	Renews:  true,
	Modules: []string{"github.com/bsm/redislock", "github.com/redis/go-redis/v9"},
	Keys:    sameKey,
	Open: func(_ context.Context, env Env) (Client, error) {
		client := redis.NewClient(&redis.Options{Addr: env.Redis, PoolSize: poolFor(env.Goroutines)})
		return newRedislock(client, env, client.Close), nil
	},
}

var redislockAutoPeer = &Peer{
	Name:    "redislock-auto",
	About:   "bsm/redislock over go-redis's AutoPipeline with its default options, otherwise as redislock",
	Source:  "go-redis's documentation of AutoPipeline, which redislock accepts as its client",
	Role:    Library,
	Kinds:   exclusiveOnly,
	Renews:  true,
	Modules: []string{"github.com/bsm/redislock", "github.com/redis/go-redis/v9"},
	Keys:    sameKey,
	Open: func(_ context.Context, env Env) (Client, error) {
		client := redis.NewClient(&redis.Options{Addr: env.Redis})
		pipeline, err := client.AutoPipeline()
		if err != nil {
			return nil, err
		}
		return newRedislock(pipeline, env, client.Close), nil
	},
}

// poolFor returns the size of a pool: a connection for each goroutine, between 20 and 128. More connections make the server slower, not
// faster.
func poolFor(goroutines int) int { return min(max(goroutines, 20), 128) }

type redislockClient struct {
	client *redislock.Client
	lease  time.Duration
	poll   time.Duration
	close  func() error
}

func newRedislock(client redislock.RedisClient, env Env, end func() error) *redislockClient {
	return &redislockClient{client: redislock.New(client), lease: env.Lease, poll: env.Poll, close: end}
}

func (c *redislockClient) Acquire(ctx context.Context, _ Kind, name string) (Held, error) {
	// A retry strategy may keep state, so each call has its own.
	lock, err := c.client.Obtain(ctx, name, c.lease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(c.poll)})
	if err != nil {
		return nil, err
	}
	return redislockHeld{lock, c.lease}, nil
}

func (c *redislockClient) Close() error { return c.close() }

type redislockHeld struct {
	*redislock.Lock
	lease time.Duration
}

// Keep refreshes the lock every third of its lease, like the watchdog in redislock's documentation.
func (h redislockHeld) Keep(ctx context.Context, lost func()) (stop func()) {
	return keepEvery(ctx, h.lease/3, lost, func(ctx context.Context) error { return h.Refresh(ctx, h.lease, nil) })
}
