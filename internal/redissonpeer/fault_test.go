package redissonpeer_test

import (
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// behindProxy returns a peer that connects through a fault proxy, with a client that retries commands, as go-redis does by default.
func behindProxy(t *testing.T) (*redissonpeer.Peer, *faultproxy.Proxy) {
	server := redistest.Shared(t)
	proxy := faultproxy.New(t, server.Addr())
	options := server.Options()
	options.Addr = proxy.Addr()
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return newPeer(t, client, redissonpeer.Config{}), proxy
}

func TestUnlock_LostReplyIsRepeatedUnderTheSameID(t *testing.T) {
	p, proxy := behindProxy(t)
	name := redistest.Name(t)
	l := p.RLock(name, 1)
	mustLock(t, l, time.Minute)
	mustLock(t, l, time.Minute)

	proxy.DropReplies(2, faultproxy.Containing("eval", redissonpeer.LatchKey(name, "")))
	require.NoError(t, l.Unlock(t.Context()))
	assert.Equal(t, 2, proxy.Dropped())
	count, err := l.HoldCount(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(1), count)
}

func TestTryLock_LostReplyIsToldAndNotRepeated(t *testing.T) {
	p, proxy := behindProxy(t)
	name := redistest.Name(t)
	l := p.RLock(name, 1)
	proxy.DropReplies(1, faultproxy.Containing("eval", name))
	_, err := l.TryLock(t.Context(), time.Minute)
	require.ErrorIs(t, err, io.EOF)
	count, err := l.HoldCount(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(1), count)
}

func TestLock_FailedSubscriptionIsAnError(t *testing.T) {
	p, proxy := behindProxy(t)
	name := redistest.Name(t)
	mustLock(t, p.RLock(name, 1), time.Minute) // leaves a connection in the pool
	proxy.Refuse(true)
	assert.ErrorContains(t, p.RLock(name, 2).Lock(t.Context(), time.Minute), "subscribe to")

	proxy.Refuse(false)
	result := lockLater(t.Context(), p.RLock(name, 2), time.Minute)
	requireWaiting(t, p, name, 1)
	require.NoError(t, p.RLock(name, 1).Unlock(t.Context()))
	assert.NoError(t, <-result)
}
