package redistest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// GuardedName is the sentinels' name for the master.
const GuardedName = "holdfast"

// Guarded is a master, its replica, and the sentinels that promote the replica when the master fails.
type Guarded struct {
	Servers   []*Server // the first was the master at the start
	Sentinels []*Server
	killed    *Server
	tb        testing.TB
}

// StartGuarded starts a master, its replica and sentinels, and returns when the sentinels know all of these. The sentinels count the master as dead
// when it has not answered for downAfter.
func StartGuarded(tb testing.TB, downAfter time.Duration) *Guarded {
	tb.Helper()
	const sentinels, quorum = 3, "2"
	master := Start(tb)
	g := &Guarded{tb: tb, Servers: []*Server{master, Follow(tb, master)}}
	host, port, _ := strings.Cut(master.Addr(), ":")
	for range sentinels {
		sentinel := Start(tb, "--sentinel")
		g.Sentinels = append(g.Sentinels, sentinel)
		for _, command := range [][]any{
			{"sentinel", "monitor", GuardedName, host, port, quorum},
			{"sentinel", "set", GuardedName, "down-after-milliseconds", downAfter.Milliseconds(), "failover-timeout", "3000"},
		} {
			if err := sentinel.look().Do(context.Background(), command...).Err(); err != nil {
				tb.Fatalf("redistest: %v: %v", command, err)
			}
		}
	}
	await(tb, "the sentinels to know all servers", func() bool {
		for _, sentinel := range g.Sentinels {
			state := sentinel.look().Info(context.Background(), "sentinel").Val()
			if !strings.Contains(state, "slaves=1,sentinels=3") {
				return false
			}
		}
		return true
	})
	return g
}

// Client returns a new client of whichever server is the master. The client is closed when the test ends.
func (g *Guarded) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	var addrs []string
	for _, sentinel := range g.Sentinels {
		addrs = append(addrs, sentinel.Addr())
	}
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: GuardedName, SentinelAddrs: addrs})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Master returns the master that the first sentinel knows.
func (g *Guarded) Master() *Server {
	g.tb.Helper()
	var at []string
	if sentinels := g.Sentinels[0].look().Do(context.Background(), "sentinel", "get-master-addr-by-name", GuardedName); sentinels.Err() == nil {
		at, _ = sentinels.StringSlice()
	}
	for _, server := range g.Servers {
		if len(at) == 2 && server.Addr() == at[0]+":"+at[1] {
			return server
		}
	}
	g.tb.Fatalf("redistest: the sentinel's master is at %v", at)
	return nil
}

// FailOver kills the master, and returns when another server is the master.
func (g *Guarded) FailOver() {
	g.tb.Helper()
	old := g.Master()
	old.Kill()
	g.killed = old
	await(g.tb, "another master", func() bool {
		next := g.Master()
		return next != old && strings.Contains(next.look().Info(context.Background(), "replication").Val(), "role:master")
	})
}

// Restore restarts the killed server, and returns when it follows the master. The sentinels would arrange that too, but later.
func (g *Guarded) Restore() {
	g.tb.Helper()
	g.killed.Restart()
	await(g.tb, "the old master to follow", func() bool {
		master := g.Master()
		for _, server := range g.Servers {
			state := server.look().Info(context.Background(), "replication").Val()
			switch {
			case server == master && !strings.Contains(state, "role:master"):
				return false
			case server != master && strings.Contains(state, "role:master"):
				host, port, _ := strings.Cut(master.Addr(), ":")
				_ = server.look().ReplicaOf(context.Background(), host, port)
				return false
			case server != master && !strings.Contains(state, "master_link_status:up"):
				return false
			}
		}
		return true
	})
}
