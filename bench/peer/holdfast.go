package peer

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

var holdfastPeer = &Peer{
	Name:    "holdfast",
	About:   "this repository, with its default options on a default go-redis client; Options.Linger where a workload says so",
	Source:  "README.md",
	Role:    Ours,
	Kinds:   everyKind,
	Renews:  true,
	Modules: []string{"github.com/redis/go-redis/v9"},
	Keys:    sameKey,
	Open:    openHoldfast,
}

func sameKey(name string) []string { return []string{name} }

type holdfastClient struct {
	redis *redis.Client
	rt    *holdfast.Runtime
	env   Env
}

func openHoldfast(_ context.Context, env Env) (Client, error) {
	client := redis.NewClient(&redis.Options{Addr: env.Redis})
	rt, err := holdfast.New(client, holdfast.Options{Lease: env.Lease, Linger: env.Linger})
	if err != nil {
		return nil, err
	}
	return &holdfastClient{client, rt, env}, nil
}

func (c *holdfastClient) Acquire(ctx context.Context, kind Kind, name string) (Held, error) {
	switch kind {
	case Exclusive:
		return c.rt.Lock(name).Acquire(ctx)
	case Fair:
		return c.rt.FairLock(name).Acquire(ctx)
	case Read:
		return c.rt.RWLock(name).Read().Acquire(ctx)
	case Write:
		return c.rt.RWLock(name).Write().Acquire(ctx)
	case Semaphore:
		return c.rt.PermitSemaphore(name).Acquire(ctx)
	}
	return nil, fmt.Errorf("holdfast has no %s", kind)
}

// Prepare implements Preparer.
func (c *holdfastClient) Prepare(ctx context.Context, name string) error {
	_, err := c.rt.PermitSemaphore(name).TrySetPermits(ctx, c.env.Permits)
	return err
}

// Start requests a lock; no goroutine waits for it.
func (c *holdfastClient) Start(ctx context.Context, name string) Waiting {
	return holdfastWaiting{c.rt.Lock(name).AcquireAsync(ctx)}
}

type holdfastWaiting struct{ *holdfast.Pending }

func (w holdfastWaiting) Held() (Held, error) { return w.Lease() }

func (c *holdfastClient) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	err := c.rt.Close(ctx)
	_ = c.redis.Close()
	return err
}
