package faults_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// clientRow is a row of the table of clients in doc/operations.md.
type clientRow struct {
	what    string // the first cell
	outcome string // the beginning of the row's second cell
	clients []makeClient
}

const (
	works       = "works"
	newRefuses  = "`New` refuses it"
	findsChecks = "`Check` refuses it"
)

// makeClient makes a new client, as a separate process would.
type makeClient func(t *testing.T, s *clientServers) redis.UniversalClient

// TestFault_EveryClientOfGoRedis shows that doc/operations.md is right about each client that go-redis can make, and each option that matters.
func TestFault_EveryClientOfGoRedis(t *testing.T) {
	t.Parallel()
	servers := startClientServers(t)
	for _, row := range clientRows() {
		for i, client := range row.clients {
			t.Run(fmt.Sprintf("%s/%d", row.what, i), func(t *testing.T) {
				t.Parallel()
				if locktest.Raced() && strings.Contains(row.what, "RouteByLatency") {
					t.Skip("go-redis measures a node's latency while it still writes to the node's client")
				}
				switch row.outcome {
				case works:
					showClientWorks(t, servers, client)
				case newRefuses:
					_, err := holdfast.New(client(t, servers), holdfast.Options{})
					assert.ErrorIs(t, err, holdfast.ErrInvalid)
				case findsChecks:
					rt := locktest.NewRuntime(t, client(t, servers), holdfast.Options{})
					var found *holdfast.CheckError
					assert.ErrorAs(t, rt.CheckFor(t.Context(), holdfast.KindLock), &found)
				}
			})
		}
	}
}

// showClientWorks makes two runtimes, each with its own client from the given function. One runtime holds a lock, and its release wakes the waiter of
// the other. Then both runtimes use a semaphore.
func showClientWorks(t *testing.T, servers *clientServers, client makeClient) {
	lease := locktest.Unhurried(1500 * time.Millisecond) // it is renewed twice a second
	runtime := func() *holdfast.Runtime {
		return locktest.NewRuntime(t, client(t, servers), holdfast.Options{Lease: lease})
	}
	one, other := runtime(), runtime()
	require.NoError(t, one.Check(t.Context()))
	name := redistest.Name(t)
	held := locktest.Acquire(t, one.FencedLock(name))
	pending := other.FencedLock(name).AcquireAsync(t.Context())
	locktest.Await(t, "a subscription", func() bool { return servers.listeners(name) > 0 })
	locktest.Renewed(t, held)
	locktest.Release(t, held)
	next, err := pending.Lease()
	require.NoError(t, err)
	assert.Greater(t, next.Token(), held.Token())
	locktest.Release(t, next)

	require.NoError(t, one.Semaphore(name).Release(t.Context(), 1))
	require.NoError(t, other.Semaphore(name).Acquire(t.Context(), 1))
}

// TestClients_DocumentAgrees compares the test's rows with the table in doc/operations.md.
func TestClients_DocumentAgrees(t *testing.T) {
	t.Parallel()
	var documented, tested []string
	for _, line := range clientTable(t) {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		require.Len(t, cells, 2, line)
		outcome := ""
		for _, o := range []string{works, newRefuses, findsChecks} {
			if strings.HasPrefix(cells[1], o) {
				outcome = o
			}
		}
		documented = append(documented, cells[0]+": "+outcome)
	}
	for _, row := range clientRows() {
		tested = append(tested, row.what+": "+row.outcome)
		assert.NotEmpty(t, row.clients, row.what)
	}
	assert.Equal(t, tested, documented)
}

// TestClients_DocumentNamesEveryOption fails when a new version of go-redis adds an option that the table does not name.
func TestClients_DocumentNamesEveryOption(t *testing.T) {
	t.Parallel()
	table := strings.Join(clientTable(t), "\n")
	for _, options := range []any{redis.Options{}, redis.FailoverOptions{}, redis.ClusterOptions{}, redis.UniversalOptions{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(options)) {
			if field.IsExported() {
				assert.Contains(t, table, "`"+field.Name+"`", "%T", options)
			}
		}
	}
}

// clientTable returns the rows of the table in doc/operations.md.
func clientTable(t *testing.T) (lines []string) {
	text, err := os.ReadFile("../../doc/operations.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Clients of go-redis\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| ") && !regexp.MustCompile(`^\| (client|---)`).MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// onServer makes a client of the single server. The client logs in with a user name and a password. The function `change` sets further options.
func onServer(change func(o *redis.Options)) makeClient {
	return func(t *testing.T, s *clientServers) redis.UniversalClient {
		options := s.single.Options()
		options.Username, options.Password = s.user, s.password
		change(options)
		return closed(t, redis.NewClient(options))
	}
}

// onCluster makes a client of the cluster. The function `change` sets further options.
func onCluster(change func(o *redis.ClusterOptions)) makeClient {
	return func(t *testing.T, s *clientServers) redis.UniversalClient {
		options := &redis.ClusterOptions{Addrs: s.cluster.Addrs(), MaintNotificationsConfig: noMaintenance()}
		change(options)
		return closed(t, redis.NewClusterClient(options))
	}
}

// onSentinel makes a client that finds the master by Sentinel. The function `change` sets further options.
func onSentinel(change func(o *redis.FailoverOptions)) makeClient {
	return func(t *testing.T, s *clientServers) redis.UniversalClient {
		options := &redis.FailoverOptions{MasterName: redistest.GuardedName, SentinelAddrs: s.sentinels()}
		change(options)
		return closed(t, redis.NewFailoverClient(options))
	}
}

// universal makes a client with NewUniversalClient. The function `change` sets its options.
func universal(change func(s *clientServers, o *redis.UniversalOptions)) makeClient {
	return func(t *testing.T, s *clientServers) redis.UniversalClient {
		options := &redis.UniversalOptions{MaintNotificationsConfig: noMaintenance()}
		change(s, options)
		return closed(t, redis.NewUniversalClient(options))
	}
}

// both returns two makers of clients, to try an option on a server and on a cluster.
func both(server func(o *redis.Options), cluster func(o *redis.ClusterOptions)) []makeClient {
	return []makeClient{onServer(server), onCluster(cluster)}
}

func closed[C redis.UniversalClient](t *testing.T, client C) redis.UniversalClient {
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

// listeners counts the subscriptions to releases of a lock, over all servers.
func (s *clientServers) listeners(name string) (n int) {
	pattern, ctx := "*"+name+"}*", context.Background()
	for _, client := range s.lookers {
		n += len(client.PubSubChannels(ctx, pattern).Val()) + len(client.PubSubShardChannels(ctx, pattern).Val())
	}
	return n
}
