package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisVar is the environment variable that names the redis-server to start instead of the one in PATH. The tests read it, too.
const redisVar = "HOLDFAST_REDIS_SERVER"

// redisServer is the Redis that all contenders share: one that the harness started, or the one that -redis names.
type redisServer struct {
	server  *server // nil if the harness did not start it
	addr    string
	client  *redis.Client
	version string
}

func startRedis(addr string) (*redisServer, error) {
	s := &redisServer{addr: addr}
	if addr == "" {
		binary := os.Getenv(redisVar)
		if binary == "" {
			binary = "redis-server"
		}
		path, err := exec.LookPath(binary)
		if err != nil {
			return nil, fmt.Errorf("%s is missing: install Redis 6.2 or later (Debian, Ubuntu: apt-get install redis-server), "+
				"name its program in %s, or name a running server with -redis", binary, redisVar)
		}
		s.server, err = startServer("redis-server", func(port int, dir string) string {
			return fmt.Sprintf("%q --port %d --bind 127.0.0.1 --save '' --appendonly no --maxclients 20000 --dir %q", path, port, dir)
		})
		if err != nil {
			return nil, err
		}
		s.addr = s.server.addr
	}
	s.client = redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: 1, ClientName: harnessName, ReadTimeout: 30 * time.Second})
	info, err := s.client.Info(context.Background(), "server").Result()
	if err != nil {
		s.end()
		return nil, fmt.Errorf("no Redis at %s: %w; leave -redis out and the harness starts its own", s.addr, err)
	}
	s.version = field(info, "redis_version")
	return s, nil
}

func (s *redisServer) end() {
	_ = s.client.Close()
	if s.server != nil {
		s.server.end()
	}
}

// field returns the value of a line "name:value".
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); key == name {
			return value
		}
	}
	return ""
}

func number(info, name string) float64 {
	value, _ := strconv.ParseFloat(field(info, name), 64)
	return value
}

// clean removes the keys that a contender left, and returns their number.
func (s *redisServer) clean(prefix string) (left int) {
	ctx := context.Background()
	keys := s.client.Scan(ctx, 0, "*"+prefix+"*", 10_000).Iterator()
	var some []string
	for keys.Next(ctx) {
		left++
		if some = append(some, keys.Val()); len(some) == 1000 {
			s.client.Unlink(ctx, some...)
			some = some[:0]
		}
	}
	if len(some) > 0 {
		s.client.Unlink(ctx, some...)
	}
	return left
}
