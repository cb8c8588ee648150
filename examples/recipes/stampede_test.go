package recipes

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// cached returns the value of a key from the cache. If the cache has none, one caller computes it, and the others wait for the result.
func cached(ctx context.Context, rt *holdfast.Runtime, cache redis.UniversalClient, key string, fill func(context.Context) (string, error)) (
	value string, err error) {
	value, err = cache.Get(ctx, key).Result()
	if !errors.Is(err, redis.Nil) {
		return value, err
	}
	err = rt.Lock("fill:"+holdfast.EscapeName(key)).Do(ctx, func(ctx context.Context) error {
		value, err = cache.Get(ctx, key).Result() // another caller may have set it while this one waited
		if !errors.Is(err, redis.Nil) {
			return err
		}
		if value, err = fill(ctx); err != nil {
			return err
		}
		return cache.Set(ctx, key, value, time.Minute).Err()
	})
	return value, err
}

// Twenty requests in two processes miss the cache at the same time. Only one of them queries the database.
func Example_cacheStampede() {
	rts, cache, end := processes(2)
	defer end()
	ctx := context.Background()

	var queries, right atomic.Int32
	query := func(context.Context) (string, error) {
		queries.Add(1)
		return "Anna", nil
	}
	var requests sync.WaitGroup
	for i := range 20 {
		requests.Go(func() {
			name, err := cached(ctx, rts[i%2], cache, "user 7", query)
			if err != nil {
				log.Print(err)
			}
			if name == "Anna" {
				right.Add(1)
			}
		})
	}
	requests.Wait()
	fmt.Println(right.Load(), "answers,", queries.Load(), "query")

	// Output:
	// 20 answers, 1 query
}
