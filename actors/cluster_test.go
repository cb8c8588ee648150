package actors

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

// A node is the same for everybody while anybody uses it: two for one server would be two links to it. When nobody does it is forgotten.
func TestCluster_ForgetsWhatNobodyUses(t *testing.T) {
	t.Parallel()
	client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}}, nil
	}})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	c := newCluster(client, &telling{})
	c.known.Store(true)

	lane, link := c.keep(c.of("a")), c.keep(c.of("b"))
	assert.Same(t, lane, link)
	c.forget(lane)
	assert.Same(t, link, c.of("a"), "the link still uses it")
	seen := c.of("a")
	c.forget(link)
	assert.Empty(t, c.nodes)
	other := c.of("a")
	assert.NotSame(t, link, other)
	assert.Same(t, c.keep(other), c.keep(seen), "who has seen it before it was forgotten does not bring it back beside another")
}
