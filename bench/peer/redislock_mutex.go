package peer

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

var redislockMutexPeer = &Peer{
	Name: "redislock-mutex",
	About: "redislock behind one sync.Mutex for each name in each process: only one goroutine of a process asks Redis at a time; " +
		"otherwise as redislock",
	Source:  "what a user can write in ten lines",
	Role:    Library,
	Kinds:   exclusiveOnly,
	Renews:  true,
	Modules: []string{"github.com/bsm/redislock", "github.com/redis/go-redis/v9"},
	Keys:    sameKey,
	Open: func(_ context.Context, env Env) (Client, error) {
		client := redis.NewClient(&redis.Options{Addr: env.Redis, PoolSize: poolFor(env.Goroutines)})
		return &redislockMutexClient{redislock: newRedislock(client, env, client.Close)}, nil
	},
}

type redislockMutexClient struct {
	redislock *redislockClient
	locks     sync.Map // mutexes by name; none is deleted, since few names are hot
}

func (c *redislockMutexClient) Acquire(ctx context.Context, kind Kind, name string) (Held, error) {
	found, _ := c.locks.LoadOrStore(name, new(sync.Mutex))
	mu := found.(*sync.Mutex)
	mu.Lock()
	held, err := c.redislock.Acquire(ctx, kind, name)
	if err != nil {
		mu.Unlock()
		return nil, err
	}
	return &redislockMutexHeld{held, mu}, nil
}

func (c *redislockMutexClient) Close() error { return c.redislock.Close() }

type redislockMutexHeld struct {
	Held
	mu *sync.Mutex
}

func (h *redislockMutexHeld) Release(ctx context.Context) error {
	err := h.Held.Release(ctx)
	h.mu.Unlock()
	return err
}
