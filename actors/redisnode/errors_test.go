package redisnode

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func causesFor(t *testing.T, addr, password string) *Errors {
	client := redis.NewClient(&redis.Options{Addr: addr, Password: password})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return ErrorsOf(client)
}

func TestCauses_SayWhatTheErrorDoesNot(t *testing.T) {
	t.Parallel()
	c := causesFor(t, "db:6379", "")
	sha := strings.Repeat("0123456789", 4)
	for text, err := range map[string]error{
		"Redis at db:6379 closed the connection (restarted, or maxclients reached?): EOF":                                     io.EOF,
		"Redis at db:6379 did not answer in time: i/o timeout":                                                                os.ErrDeadlineExceeded,
		"all connections of the Redis client are in use: redis: connection pool timeout":                                      redis.ErrPoolTimeout,
		"the Redis client was closed before the runtime: redis: client is closed":                                             redis.ErrClosed,
		"the Redis client closed the connection (was it closed, or did the master change?): use of closed network connection": net.ErrClosed,
		"READONLY You can't write (this is a replica, locks need its master)":                                                 refusal("READONLY You can't write script: " + sha + ", on @user_script:34."),
		"MOVED 1 db:1 (the server is part of a cluster, the client is for a single server)":                                   refusal("MOVED 1 db:1"),
		"ERR The user executing the script can't run this command or subcommand (Check names every missing right)":            refusal("ERR The user executing the script can't run this command or subcommand"),
		"BUSY no": refusal("BUSY no"),
		"other":   errors.New("other"),
	} {
		got := c.ExplainWithHint(err)
		assert.Equal(t, text, got.Error())
		assert.ErrorIs(t, got, err, "the cause stays reachable")
	}
	assert.NoError(t, c.ExplainWithHint(nil))
	assert.Equal(t, redis.Nil, c.ExplainWithHint(redis.Nil), "redis.Nil is an answer, not a failure")
}

// A server that requires a certificate of its clients says so before it closes the connection, but not every client receives that message. So the
// error for a closed connection names the certificate as a possible cause.
func TestCauses_ClientWithoutCertificate(t *testing.T) {
	t.Parallel()
	const lacking = "a client's certificate required?"
	client := redis.NewClient(&redis.Options{Addr: "db:6379", TLSConfig: &tls.Config{}})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"db:6379"}, TLSConfig: &tls.Config{}})
	both := redis.NewClient(&redis.Options{Addr: "db:6379", TLSConfig: &tls.Config{Certificates: make([]tls.Certificate, 1)}})
	for _, client := range []redis.UniversalClient{client, cluster, both} {
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
	}
	assert.ErrorContains(t, ErrorsOf(client).Explain(syscall.ECONNRESET), lacking)
	assert.ErrorContains(t, ErrorsOf(cluster).Explain(syscall.ECONNRESET), lacking)
	assert.NotContains(t, ErrorsOf(both).Explain(syscall.ECONNRESET).Error(), "certificate")
}

func TestCauses_TellWhatWentWrongBefore(t *testing.T) {
	t.Parallel()
	c := causesFor(t, "db:6379", "")
	assert.Equal(t, "no answer from Redis at db:6379 in time", c.NoAnswer().Error())
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	c.Remember(refused)
	c.Remember(c.NoAnswer())
	c.Remember(context.Canceled)
	for _, err := range []error{c.NoAnswer(), c.NotSent()} {
		assert.True(t, strings.HasSuffix(err.Error(), "; before that: dial: connection refused"), err.Error())
		assert.ErrorIs(t, err, refused)
		var network net.Error
		require.ErrorAs(t, err, &network)
		assert.True(t, network.Timeout())
	}
	c.Remember(nil)
	assert.NotContains(t, c.NoAnswer().Error(), "before")
}

// refusal is an error reply of the server.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// IsNoScript may be called with a nil error: Runtime.Check calls it after each call, failed or not.
func TestIsNoScript_NoError(t *testing.T) {
	t.Parallel()
	assert.False(t, IsNoScript(nil))
	assert.True(t, IsNoScript(errors.New("NOSCRIPT No matching script. Please use EVAL.")))
}
