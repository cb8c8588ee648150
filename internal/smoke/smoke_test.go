package smoke_test

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var wanted = flag.String("smoke.server", "", `how the server's name and version must begin, for example "Redis 6.2.14" or "Valkey 8."; by default, any server will do`)

func TestMain(m *testing.M) { locktest.Main(m) }

const lease = 6 * time.Second // renewed after a third of it

// Every kind is acquired and excludes another process. It is renewed if it has a lease. Its release wakes a waiter by a message, unless waiters of
// this kind poll. In the end its keys are gone.
func TestSmoke_EveryKind(t *testing.T) {
	server := redistest.Start(t)
	look := locktest.NewClient(t, server.Addr())
	found := version(t, look)
	t.Logf("tested on %s", found)
	require.True(t, strings.HasPrefix(found, *wanted), "the server is %s, not %s", found, *wanted)

	client := func(t *testing.T) redis.UniversalClient { return locktest.NewClient(t, server.Addr()) }
	require.NoError(t, locktest.NewRuntime(t, client(t), holdfast.Options{}).Check(t.Context()))
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			name := redistest.Name(t)
			heard := look.PSubscribe(t.Context(), "*")
			defer heard.Close()
			_, err := heard.Receive(t.Context()) // the confirmation of the subscription
			require.NoError(t, err)

			k.show(t, client, name, func() {
				listening(t, k, look, name)
			})
			if !k.polls {
				await(t, heard, name)
			}
			k.leavesNothing(t, look, name)
		})
	}
}

// On a cluster, every kind passes the same test, except that the messages are not checked.
func TestSmoke_Cluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0, 30*time.Second)
	client := func(t *testing.T) redis.UniversalClient { return locktest.ClusterClient(t, cluster) }
	require.NoError(t, locktest.NewRuntime(t, client(t), holdfast.Options{}).Check(t.Context()))
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			name := redistest.Name(t)
			k.show(t, client, name, func() {})
			k.leavesNothing(t, client(t), name)
		})
	}
}

// show has two processes hold something one after the other. It calls waiting() once the second process waits.
func (k kind) show(t *testing.T, client func(t *testing.T) redis.UniversalClient, name string, waiting func()) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*locktest.Patience)
	defer cancel()
	first := locktest.NewRuntime(t, client(t), holdfast.Options{Lease: lease})
	second := locktest.NewRuntime(t, client(t), holdfast.Options{Lease: lease})
	if k.setUp != nil {
		require.NoError(t, k.setUp(ctx, first, name))
	}
	had, err := k.hold(ctx, first, name, false) // not a try: a try of a red lock might fail on a busy machine
	require.NoError(t, err, "acquires")
	_, err = k.rival(ctx, second, name, true)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired, "excludes")

	type outcome struct {
		held held
		err  error
	}
	served := make(chan outcome, 1)
	go func() {
		got, err := k.rival(ctx, second, name, false)
		served <- outcome{got, err}
	}()
	waiting()
	if !k.fixed {
		locktest.Await(t, "a renewal", locktest.Moved(had.ExpiresAt))
	}
	select {
	case got := <-served:
		require.Fail(t, "excludes", "the second has it too: %v", got.err)
	default:
	}
	require.NoError(t, had.Release(ctx), "releases")
	got := <-served
	require.NoError(t, got.err, "wakes")
	require.NoError(t, got.held.Release(ctx), "the waiter releases what it was granted")
}

// leavesNothing waits until no key of a name is left, except the number of permits. The counters of fenced locks stay, too.
func (k kind) leavesNothing(t *testing.T, look redis.UniversalClient, name string) {
	left := func() []string {
		return slices.DeleteFunc(locktest.Keys(t, look), func(key string) bool {
			return !strings.Contains(key, name) || k.stays && key == name
		})
	}
	locktest.Await(t, "the end of its keys", func() bool { return len(left()) == 0 })
}

// listening returns when a waiter has subscribed to a channel of the name.
func listening(t *testing.T, k kind, look *redis.Client, name string) {
	if k.polls {
		return
	}
	locktest.Await(t, "the waiter to listen", func() bool {
		for _, channel := range look.PubSubChannels(t.Context(), "*").Val() {
			if strings.Contains(channel, name) {
				return true
			}
		}
		return false
	})
}

// await returns when a message about a name has arrived.
func await(t *testing.T, heard *redis.PubSub, name string) {
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	for {
		message, err := heard.ReceiveMessage(ctx)
		require.NoError(t, err, "a message to the waiter")
		if strings.Contains(message.Channel, name) {
			return
		}
	}
}

// version returns the server's name and version.
func version(t *testing.T, look *redis.Client) string {
	info, err := look.InfoMap(t.Context(), "server").Result()
	require.NoError(t, err)
	if valkey := info["Server"]["valkey_version"]; valkey != "" {
		return "Valkey " + valkey
	}
	return "Redis " + info["Server"]["redis_version"]
}
