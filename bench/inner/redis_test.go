package inner

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestMain runs the benchmarks, and then stops the server that the first one started. The server is the redis-server in PATH, or the program that
// HOLDFAST_REDIS_SERVER names. It is private, has its own port, and writes nothing to disk.
func TestMain(m *testing.M) { redistest.Main(m) }

// newClient returns a client of the server with go-redis's defaults, except for the pool size; 0 means the default.
func newClient(tb testing.TB, poolSize int) *redis.Client {
	tb.Helper()
	options := redistest.Shared(tb).Options()
	options.PoolSize = poolSize
	client := redis.NewClient(options)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// scriptCalls returns how many EVALSHA the server has run so far.
func scriptCalls(tb testing.TB) int64 {
	tb.Helper()
	return redistest.Shared(tb).CommandStats(tb, "evalsha")["evalsha"]
}

// serverCPU returns the CPU time that the server has used so far.
func serverCPU(tb testing.TB) time.Duration {
	tb.Helper()
	client := redis.NewClient(redistest.Shared(tb).Options())
	defer func() { _ = client.Close() }()
	text, err := client.Info(context.Background(), "cpu").Result()
	if err != nil {
		tb.Fatal(err)
	}
	var used time.Duration
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_user" && name != "used_cpu_sys" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			tb.Fatal(err)
		}
		used += time.Duration(seconds * float64(time.Second))
	}
	return used
}
