package redisnode

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/embedded"
)

// While a node is in use, all callers get the same one, because two nodes for one server would mean two links to it. An unused node
// is forgotten.
func TestCluster_ForgetsWhatNobodyUses(t *testing.T) {
	t.Parallel()
	client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}}, nil
	}})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	c := NewCluster(client, &PublishMode{}, ReplyWait)
	c.known.Store(true)

	lane, link := c.Keep(c.ForKey("a")), c.Keep(c.ForKey("b"))
	assert.Same(t, lane, link)
	c.Forget(lane)
	assert.Same(t, link, c.ForKey("a"), "the link still uses it")
	seen := c.ForKey("a")
	c.Forget(link)
	assert.Empty(t, c.nodes)
	other := c.ForKey("a")
	assert.NotSame(t, link, other)
	assert.Same(t, c.Keep(other), c.Keep(seen), "a caller that has kept a forgotten node gets the new one, so there are never two")
}

// go-redis closes its client for a master that has been away for a minute, and makes another one when the master is back. A call that is
// redirected to that master uses the new client.
func TestCluster_RedirectsToTheNewestClient(t *testing.T) {
	t.Parallel()
	c := NewCluster(redis.NewClusterClient(&redis.ClusterOptions{}), &PublishMode{}, ReplyWait)
	t.Cleanup(func() { assert.NoError(t, c.client.Close()) })
	var newest *Node
	for range 10 {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		newest = c.node(client)
	}
	assert.Same(t, newest, c.AtAddr("127.0.0.1:1", newest))
	c.Drop(newest)
	assert.NotSame(t, newest, c.AtAddr("127.0.0.1:1", newest), "its client is closed")
}

// A call that is redirected to a master without slots passes exactly once through the hooks of the redirecting master's client. The client
// of the master without slots has bounded timeouts.
func TestCluster_StrayHasTheHooks(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	var names []string
	for name, newClient := range map[string]func(*redis.Options) *redis.Client{
		"hook of the node": nil,
		"hook of NewClient": func(options *redis.Options) *redis.Client {
			client := redis.NewClient(options)
			client.AddHook(seen{names: &names})
			return client
		},
	} {
		c := NewCluster(redis.NewClusterClient(&redis.ClusterOptions{NewClient: newClient}), &PublishMode{}, time.Second)
		known := c.newClient(&redis.Options{Addr: "127.0.0.1:1"})
		if newClient == nil {
			known.AddHook(seen{names: &names})
		}
		t.Cleanup(func() { c.Close(); assert.NoError(t, known.Close()); assert.NoError(t, c.client.Close()) })
		by := c.node(known)
		for range 3 { // each redirects to the next
			names = nil
			by = c.AtAddr(server.Addr(), by)
			require.NoError(t, by.Client.Process(t.Context(), NewCommand("ping")), name)
			pipe := by.Client.Pipeline()
			_ = pipe.Process(t.Context(), NewCommand("time"))
			_, err := pipe.Exec(t.Context())
			require.NoError(t, err, name)
			names = slices.DeleteFunc(names, func(name string) bool { return name != "ping" && name != "pipelined time" }) // others belong to handshakes
			assert.Equal(t, []string{"ping", "pipelined time"}, names, name)
			assert.Equal(t, timeouts{time.Second, time.Second}, timeoutsOf(by.Client), name)
			c.strays = map[string]*Node{"": by}
		}
	}
}

// No node is known until it has been decided how releases are published. Otherwise a channel could be subscribed to in one way while
// releases are published in the other. The answer of one master is enough.
func TestCluster_KnowsNobodyBeforeItHasDecided(t *testing.T) {
	t.Parallel()
	var serving atomic.Bool
	slots := func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{
			{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}},
			{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:2"}}},
		}, nil
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: slots, NewClient: func(options *redis.Options) *redis.Client {
		node := redis.NewClient(options)
		node.AddHook(replying{reply: func(string) (any, error) {
			if serving.Load() && strings.HasSuffix(options.Addr, ":2") {
				return []any{}, nil
			}
			return nil, serverError("LOADING Redis is loading the dataset in memory")
		}})
		return node
	}})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	c := NewCluster(client, &PublishMode{auto: true}, ReplyWait)
	require.ErrorContains(t, c.Discover(t.Context()), "LOADING")
	_, known := c.tells.Server(c, "channel")
	assert.False(t, known)
	serving.Store(true)
	require.NoError(t, c.Discover(t.Context()))
	master, known := c.tells.Server(c, "channel")
	assert.True(t, known)
	assert.NotNil(t, master, "messages are sharded")
	c.Close()
}

// A silent node does not prevent the discovery of a new master, because another node is asked meanwhile.
func TestCluster_SuspectAsksPastASilentNode(t *testing.T) {
	t.Parallel()
	const before, after = "10.0.0.1:1", "10.0.0.1:2" // nobody connects to them
	var asks atomic.Int32
	ended := make(chan struct{})
	slots := func(context.Context) ([]redis.ClusterSlot, error) {
		master := after
		switch asks.Add(1) {
		case 1:
			master = before
		case 2:
			<-ended
			return nil, context.DeadlineExceeded
		}
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: master}}}}, nil
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: slots})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	c := NewCluster(client, &PublishMode{}, ReplyWait)
	require.NoError(t, c.Discover(t.Context()))
	master := func() string { return optionsOf(c.ForKey("a").Client).Addr }
	require.Equal(t, before, master())
	c.Suspect()
	assert.Eventually(t, func() bool { return master() == after }, 10*time.Second, 10*time.Millisecond)
	close(ended)
	c.Close()
}

// A suspicion during a discovery leads to another discovery, because the answer on its way may be older than the suspicion.
func TestCluster_SuspectedWhileAsked(t *testing.T) {
	t.Parallel()
	var asks atomic.Int32
	asked, ended := make(chan struct{}), make(chan struct{})
	slots := func(context.Context) ([]redis.ClusterSlot, error) {
		if asks.Add(1) == 1 {
			close(asked)
			<-ended
		}
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}}, nil
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: slots})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	c := NewCluster(client, &PublishMode{}, ReplyWait)
	c.Suspect()
	<-asked
	c.Suspect()
	close(ended)
	assert.Eventually(t, func() bool { return asks.Load() > 1 }, 10*time.Second, 10*time.Millisecond)
	c.Close()
}
