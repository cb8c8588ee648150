package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
)

// NewPeer returns a new client that does in Redis what Redisson does.
func NewPeer(t *testing.T, p *Place) *redissonpeer.Peer {
	return NewPeerWith(t, p, redissonpeer.Config{})
}

// NewPeerWith is NewPeer with a configuration.
func NewPeerWith(t *testing.T, p *Place, config redissonpeer.Config) *redissonpeer.Peer {
	require.True(t, p.Cluster == nil || p.PubSub == holdfast.PubSubPlain, "the peer sends and receives plain messages only: see Place.Plain")
	peer := redissonpeer.New(p.Client(t), config)
	t.Cleanup(peer.Close)
	return peer
}

// AwaitBlocked waits until n goroutines of the peer wait for a message. A goroutine that does not wait yet may miss a message that is meant for all
// waiters.
func AwaitBlocked(t *testing.T, peer *redissonpeer.Peer, n int64) {
	t.Helper()
	Await(t, "the peer's waiters", func() bool { return peer.Blocked() == n })
}
