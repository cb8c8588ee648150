package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// lanes is the number of connections that bare-batches and raw use. With two connections, one batch is in transit while the server executes another.
const lanes = 2

var bareBatchesPeer = &Peer{
	Name: "bare-batches",
	About: "Holdfast's two scripts in go-redis pipelines on two connections, no goroutine for each lock: all locks of a connection " +
		"acquired in one pipeline and released in the next",
	Source:      "go-redis at its best",
	Role:        Floor,
	Kinds:       exclusiveOnly,
	Modules:     []string{"github.com/redis/go-redis/v9"},
	Keys:        sameKey,
	OpenBatches: openBareBatches,
}

type bareBatches struct {
	redis  *redis.Client
	shares []share
	env    Env
}

// share has the commands for the locks of one lane.
type share struct{ acquires, releases [][]any }

func sharesOf(names []string, env Env) []share {
	ids := newGrants()
	shares := make([]share, min(lanes, len(names)))
	for i, name := range names {
		s, grant := &shares[i%len(shares)], ids.next()
		s.acquires = append(s.acquires, acquireCall(name, grant, env.Lease))
		s.releases = append(s.releases, releaseCall(name, grant))
	}
	return shares
}

func openBareBatches(ctx context.Context, env Env, names []string) (Batches, error) {
	client := redis.NewClient(&redis.Options{Addr: env.Redis})
	return &bareBatches{client, sharesOf(names, env), env}, loadScripts(ctx, client)
}

func (b *bareBatches) Lanes() int   { return len(b.shares) }
func (b *bareBatches) Close() error { return b.redis.Close() }

func (b *bareBatches) Pairs(ctx context.Context, lane int, done func(int, time.Duration)) error {
	share := b.shares[lane]
	start := time.Now()
	n, err := b.exchange(ctx, share.acquires)
	wait := time.Since(start)
	if err == nil && n != len(share.acquires) {
		err = fmt.Errorf("bare-batches: %d of %d locks granted", n, len(share.acquires))
	}
	if err != nil {
		return err
	}
	if _, err = b.exchange(ctx, share.releases); err == nil {
		done(n, wait)
	}
	return err
}

// exchange sends the calls in one pipeline and counts the grants among the replies.
func (b *bareBatches) exchange(ctx context.Context, calls [][]any) (n int, err error) {
	pipe := b.redis.Pipeline()
	for _, call := range calls {
		pipe.Do(ctx, call...)
	}
	replies, err := pipe.Exec(ctx)
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	for _, reply := range replies {
		if _, ok := reply.(*redis.Cmd).Val().(string); ok {
			n++
		}
	}
	return n, nil
}

func (b *bareBatches) Exclusive(ctx context.Context) error {
	return onlyOne(ctx, b.env, func(calls [][]any) (int, error) { return b.exchange(ctx, calls) })
}

// onlyOne sends many acquires of the same lock in one batch, each for a grant of its own. It fails unless exactly one is granted.
func onlyOne(_ context.Context, env Env, exchange func(calls [][]any) (granted int, err error)) error {
	ids, name := newGrants(), "bench:exclusive:"+newGrants().id
	var acquires, releases [][]any
	for range 64 {
		grant := ids.next()
		acquires = append(acquires, acquireCall(name, grant, env.Lease))
		releases = append(releases, releaseCall(name, grant))
	}
	for range 100 {
		n, err := exchange(acquires)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d of %d grants for one lock", n, len(acquires))
		}
		if err != nil {
			return err
		}
		if _, err := exchange(releases); err != nil {
			return err
		}
	}
	return nil
}
