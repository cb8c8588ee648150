package run

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// harnessName is the name of the harness's own connections, which are not cut.
const harnessName = "holdfast-bench"

// killClients kills all connections but the harness's own.
func (s *redisServer) killClients(ctx context.Context) (killed int) {
	list, err := s.client.ClientList(ctx).Result()
	if err != nil {
		return 0
	}
	kills := s.client.Pipeline()
	for line := range strings.Lines(list) {
		fields := map[string]string{}
		for _, field := range strings.Fields(line) {
			key, value, _ := strings.Cut(field, "=")
			fields[key] = value
		}
		if fields["name"] != harnessName {
			kills.ClientKillByFilter(ctx, "ID", fields["id"])
		}
	}
	replies, _ := kills.Exec(ctx)
	for _, reply := range replies {
		killed += int(reply.(*redis.IntCmd).Val())
	}
	return killed
}

// exists reports whether any of the keys exists in Redis.
func (s *redisServer) exists(keys []string) bool {
	return len(keys) > 0 && s.client.Exists(context.Background(), keys...).Val() > 0
}

// free measures the gaps in which none of the keys existed. It polls Redis until ctx ends. It returns the length of the longest gap, and the number
// of gaps that were longer than stillFor. A critical section lasts longer than the polling interval, so every holder is noticed.
func free(ctx context.Context, addr string, keys []string) (longest time.Duration, stuck int) {
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, ClientName: harnessName})
	defer func() { _ = client.Close() }()
	since, counted := time.Now(), false
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		n, err := client.Exists(ctx, keys...).Result()
		if err != nil {
			continue
		}
		gap := time.Since(since)
		longest = max(longest, gap)
		if gap > stillFor && !counted {
			counted, stuck = true, stuck+1
		}
		if n > 0 {
			since, counted = time.Now(), false
		}
	}
	return longest, stuck
}

// measureCut measures pairs while connections are killed.
func (c *contender) measureCut(window time.Duration) (repetition, error) {
	ctx, cancel := context.WithTimeout(context.Background(), window)
	defer cancel()
	var killed, stuck int
	var longest time.Duration
	cutting, watching := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(cutting)
		time.Sleep(startIn)
		killed = c.cut(ctx)
	}()
	go func() {
		defer close(watching)
		time.Sleep(2 * startIn)
		longest, stuck = free(ctx, c.run.redis.addr, c.keys())
	}()
	r, err := c.measurePairs(window)
	<-cutting
	<-watching
	if err != nil {
		return r, err
	}
	r.figures["killed"] = float64(killed)
	r.figures["free_longest_ms"] = float64(longest) / float64(time.Millisecond)
	r.figures["free_stuck"] = float64(stuck) // how often the lock was free for more than 5 s although 32 clients wanted it
	return r, nil
}
