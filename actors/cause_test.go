package actors

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func causesFor(t *testing.T, addr, password string) *causes {
	client := redis.NewClient(&redis.Options{Addr: addr, Password: password})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return causesOf(client)
}

func TestCauses_SayWhatTheErrorDoesNot(t *testing.T) {
	t.Parallel()
	c := causesFor(t, "db:6379", "")
	sha := strings.Repeat("0123456789", 4)
	for text, err := range map[string]error{
		"Redis at db:6379 closed the connection (restarted, or maxclients reached?): EOF":                                  io.EOF,
		"Redis at db:6379 did not answer in time: i/o timeout":                                                             timeout("i/o timeout"),
		"all connections of the Redis client are in use: redis: connection pool timeout":                                   redis.ErrPoolTimeout,
		"the Redis client was closed before the runtime: redis: client is closed":                                          redis.ErrClosed,
		"the Redis client was closed before the runtime: use of closed network connection":                                 net.ErrClosed,
		"READONLY You can't write (this is a replica, locks need its master)":                                              refusal("READONLY You can't write script: " + sha + ", on @user_script:34."),
		"MOVED 1 db:1 (the server is part of a cluster, the client is for a single server)":                                refusal("MOVED 1 db:1"),
		"ERR The user executing the script can't run this command or subcommand (Runtime.Check names every missing right)": refusal("ERR The user executing the script can't run this command or subcommand"),
		"BUSY no": refusal("BUSY no"),
		"other":   errors.New("other"),
	} {
		got := c.advise(err)
		assert.Equal(t, text, got.Error())
		assert.ErrorIs(t, got, err, "the cause stays reachable")
	}
	assert.NoError(t, c.advise(nil))
	assert.Equal(t, redis.Nil, c.advise(redis.Nil), "which is an answer")
}

func TestCauses_TellWhatWentWrongBefore(t *testing.T) {
	t.Parallel()
	c := causesFor(t, "db:6379", "")
	assert.Equal(t, "no answer from Redis at db:6379 in time", c.noAnswer().Error())
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	c.note(refused)
	c.note(c.noAnswer())
	c.note(context.Canceled)
	for _, err := range []error{c.noAnswer(), c.notSent()} {
		assert.True(t, strings.HasSuffix(err.Error(), "; before that: dial: connection refused"), err.Error())
		assert.ErrorIs(t, err, refused)
		var network net.Error
		require.ErrorAs(t, err, &network)
		assert.True(t, network.Timeout())
	}
	c.note(nil)
	assert.NotContains(t, c.noAnswer().Error(), "before")
}

func TestJoin_IsOneLine(t *testing.T) {
	t.Parallel()
	one, other := errors.New("one"), errors.New("other")
	assert.NoError(t, Join(nil, nil))
	assert.Equal(t, one, Join(nil, one), "alone it is itself")
	err := Join(one, nil, other)
	assert.Equal(t, "one; other", err.Error())
	assert.ErrorIs(t, err, one)
	assert.ErrorIs(t, err, other)
}
