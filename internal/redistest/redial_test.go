package redistest

import (
	"net"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A closed client of a server that is gone keeps dialing for a while, longer than goleak waits.
func TestAwaitRedials_OutlastsTheClosedClient(t *testing.T) {
	port, err := reservePort()
	require.NoError(t, err)
	defer freePort(port)
	client := redis.NewClient(&redis.Options{Addr: net.JoinHostPort(host, strconv.Itoa(port)), PoolSize: 1, MaxRetries: -1})
	require.Error(t, client.Ping(t.Context()).Err())
	await(t, "the client to dial again", redialing)
	require.NoError(t, client.Close())
	awaitRedials()
	assert.False(t, redialing())
}
