//go:build unix

package web

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

var viewersFor = flag.Duration("web.viewers", 0, "how long 50 viewers watch 10 000 locks in TestPage_ManyViewers; 0 skips the test")

// This test measures what 50 viewers of 10 000 locks cost.
func TestPage_ManyViewers(t *testing.T) {
	if *viewersFor == 0 {
		t.Skip("it measures for as long as -web.viewers says")
	}
	server := redistest.Start(t)
	client := server.Client(t)
	_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 10_000 {
			name := fmt.Sprintf("order:%05d", i)
			p.HSet(t.Context(), name, owner, 1)
			p.PExpire(t.Context(), name, time.Hour)
		}
		return nil
	})
	require.NoError(t, err)
	site := httptest.NewServer(Handler(client, Options{}))
	defer site.Close()
	cpu := func() time.Duration {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := cpu()
	names := []string{"pubsub|channels", "scan", "type", "hrandfield", "hscan", "pttl", "getrange", "lrange", "pubsub|numsub"}
	began, commands := time.Now(), server.CommandStats(t, names...)
	var bytes atomic.Int64
	var viewers sync.WaitGroup
	for i := range 50 {
		viewers.Go(func() {
			answer, err := http.Get(fmt.Sprintf("%s/events?page=%d", site.URL, 1+i%10)) //nolint:noctx // It ends below.
			if !assert.NoError(t, err) {
				return
			}
			time.AfterFunc(*viewersFor, func() { _ = answer.Body.Close() })
			n, _ := io.Copy(io.Discard, answer.Body)
			bytes.Add(n)
		})
	}
	viewers.Wait()
	seconds := time.Since(began).Seconds()
	after := server.CommandStats(t, names...)
	sum := int64(0)
	for _, name := range names {
		t.Logf("%-16s %8d calls", name, after[name]-commands[name])
		sum += after[name] - commands[name]
	}
	t.Logf("%.0f s: %.1f%% of a processor, clients included; %.0f commands/s; %.1f kB/s to all viewers", seconds, 100*(cpu()-before).Seconds()/seconds,
		float64(sum)/seconds, float64(bytes.Load())/1000/seconds)
	assert.LessOrEqual(t, float64(after["pubsub|channels"]-commands["pubsub|channels"]), seconds+1, "looks")
	info, err := client.Info(t.Context(), "cpu").Result()
	require.NoError(t, err)
	t.Log(info)
}
