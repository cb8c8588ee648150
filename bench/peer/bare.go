package peer

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

var barePeer = &Peer{
	Name:    "bare-evalsha",
	About:   "Holdfast's two scripts through go-redis, one call after the other, without any lock library; the same pool as redislock",
	Source:  "what a hand-written lock would cost",
	Role:    Floor,
	Kinds:   exclusiveOnly,
	Modules: []string{"github.com/redis/go-redis/v9"},
	Keys:    sameKey,
	Open: func(ctx context.Context, env Env) (Client, error) {
		client := redis.NewClient(&redis.Options{Addr: env.Redis, PoolSize: poolFor(env.Goroutines)})
		return &bareClient{client, newGrants(), env.Lease}, loadScripts(ctx, client)
	},
}

type bareClient struct {
	redis  *redis.Client
	grants *grants
	lease  time.Duration
}

// Acquire retries every millisecond while the lock is taken. The lock is taken only during the check for exclusion, because contenders
// without a lock library are measured on locks that nobody else wants.
func (c *bareClient) Acquire(ctx context.Context, _ Kind, name string) (Held, error) {
	grant := c.grants.next()
	for {
		if ok, err := granted(c.redis.Do(ctx, acquireCall(name, grant, c.lease)...)); ok || err != nil {
			return &bareHeld{c.redis, name, grant}, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (c *bareClient) Close() error { return c.redis.Close() }

type bareHeld struct {
	redis       *redis.Client
	name, grant string
}

func (h *bareHeld) Release(ctx context.Context) error {
	return h.redis.Do(ctx, releaseCall(h.name, h.grant)...).Err()
}
