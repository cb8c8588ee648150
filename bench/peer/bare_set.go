package peer

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

var bareSetPeer = &Peer{
	Name: "bare-set",
	About: "SET NX PX, and a script that compares and deletes, through go-redis without any lock library: no notification, no token, " +
		"no way to recover from a lost reply; the same pool as redislock",
	Source:  "Redis's documentation of SET",
	Role:    Floor,
	Kinds:   exclusiveOnly,
	Modules: []string{"github.com/redis/go-redis/v9"},
	Keys:    sameKey,
	Open: func(_ context.Context, env Env) (Client, error) {
		client := redis.NewClient(&redis.Options{Addr: env.Redis, PoolSize: poolFor(env.Goroutines)})
		return &bareSetClient{client, newGrants(), env.Lease}, nil
	},
}

var compareAndDelete = redis.NewScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`)

type bareSetClient struct {
	redis  *redis.Client
	grants *grants
	lease  time.Duration
}

// Acquire retries every millisecond while the lock is taken, as bareClient does.
func (c *bareSetClient) Acquire(ctx context.Context, _ Kind, name string) (Held, error) {
	grant := c.grants.next()
	for {
		set, err := c.redis.SetNX(ctx, name, grant, c.lease).Result()
		if set || err != nil {
			return &bareSetHeld{c.redis, name, grant}, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (c *bareSetClient) Close() error { return c.redis.Close() }

type bareSetHeld struct {
	redis       *redis.Client
	name, grant string
}

func (h *bareSetHeld) Release(ctx context.Context) error {
	return compareAndDelete.Run(ctx, h.redis, []string{h.name}, h.grant).Err()
}
