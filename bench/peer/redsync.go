package peer

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var redsyncPeer = &Peer{
	Name: "redsync",
	About: "go-redsync/redsync on the same go-redis pool as redislock; a delay between tries of 1, 10 or 100 ms, as for redislock, since its own of 50 " +
		"to 250 ms gives worse figures; any number of tries, since by default it fails after 32",
	Source:  "redsync's README; WithTries because its maintainers recommend that for waiting (issue 95)",
	Role:    Library,
	Kinds:   exclusiveOnly,
	Renews:  true,
	Modules: []string{"github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9"},
	Keys:    sameKey,
	Open: func(_ context.Context, env Env) (Client, error) {
		client := redis.NewClient(&redis.Options{Addr: env.Redis, PoolSize: poolFor(env.Goroutines)})
		return &redsyncClient{client, redsync.New(goredis.NewPool(client)), env.Lease, env.Poll}, nil
	},
}

type redsyncClient struct {
	redis *redis.Client
	rs    *redsync.Redsync
	lease time.Duration
	poll  time.Duration
}

func (c *redsyncClient) Acquire(ctx context.Context, _ Kind, name string) (Held, error) {
	// A mutex is not for concurrent use, so each call has its own.
	mutex := c.rs.NewMutex(name, redsync.WithExpiry(c.lease), redsync.WithTries(math.MaxInt32), redsync.WithRetryDelay(c.poll))
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHeld{mutex, c.lease}, nil
}

func (c *redsyncClient) Close() error { return c.redis.Close() }

type redsyncHeld struct {
	mutex *redsync.Mutex
	lease time.Duration
}

func (h redsyncHeld) Release(ctx context.Context) error {
	ok, err := h.mutex.UnlockContext(ctx)
	if err == nil && !ok {
		err = fmt.Errorf("redsync: %s was no longer held", h.mutex.Name())
	}
	return err
}

// Keep extends the lock every third of its lease, in a goroutine: redsync leaves that to its users.
func (h redsyncHeld) Keep(ctx context.Context, lost func()) (stop func()) {
	return keepEvery(ctx, h.lease/3, lost, func(ctx context.Context) error {
		if ok, err := h.mutex.ExtendContext(ctx); err != nil || !ok {
			return fmt.Errorf("redsync: not extended: %w", err)
		}
		return nil
	})
}
