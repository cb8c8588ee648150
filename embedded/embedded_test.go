package embedded_test

import (
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

func setup(t *testing.T) (*embedded.Server, redis.UniversalClient) {
	s, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s, s.Client()
}

func TestServer_ListensOnLoopbackOnly(t *testing.T) {
	s, client := setup(t)
	host, _, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1", host)
	assert.NoError(t, client.Ping(t.Context()).Err())
}

func TestServer_SeveralRunSideBySide(t *testing.T) {
	one, a := setup(t)
	other, b := setup(t)
	assert.NotEqual(t, one.Addr(), other.Addr())
	require.NoError(t, a.Set(t.Context(), "k", "v", 0).Err())
	assert.ErrorIs(t, b.Get(t.Context(), "k").Err(), redis.Nil)
}

func TestServer_KeysExpireInRealTime(t *testing.T) {
	_, client := setup(t)
	const life = 200 * time.Millisecond
	start := time.Now()
	require.NoError(t, client.HSet(t.Context(), "lock", "owner", 1).Err())
	require.NoError(t, client.PExpire(t.Context(), "lock", life).Err())
	require.NoError(t, client.Set(t.Context(), "latch", "1", life).Err())
	ttl := client.PTTL(t.Context(), "lock").Val()
	assert.LessOrEqual(t, ttl, life)

	require.Eventually(t, func() bool { return client.Exists(t.Context(), "lock", "latch").Val() == 0 },
		patience, time.Millisecond)
	assert.GreaterOrEqual(t, time.Since(start), life)
}

func TestServer_ExpiryCanBeProlonged(t *testing.T) {
	_, client := setup(t)
	const life = 300 * time.Millisecond
	require.NoError(t, client.Set(t.Context(), "renewed", "v", life).Err())
	require.NoError(t, client.PExpire(t.Context(), "renewed", time.Minute).Err())
	require.NoError(t, client.Set(t.Context(), "mayfly", "v", life).Err())
	require.Eventually(t, func() bool { return client.Exists(t.Context(), "mayfly").Val() == 0 },
		patience, time.Millisecond)
	assert.Equal(t, int64(1), client.Exists(t.Context(), "renewed").Val())
}

func TestServer_TimeIsNowAlsoInScripts(t *testing.T) {
	_, client := setup(t)
	assert.WithinDuration(t, time.Now(), client.Time(t.Context()).Val(), time.Minute)
	seconds, err := client.Eval(t.Context(), "return redis.call('TIME')[1]", nil).Int64()
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), time.Unix(seconds, 0), time.Minute)
}

func TestServer_ScriptsPublishToSubscribersOfBothProtocols(t *testing.T) {
	s, client := setup(t)
	for _, protocol := range []int{2, 3} {
		listener := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: protocol})
		defer listener.Close()
		subscription := listener.Subscribe(t.Context(), "channel")
		defer subscription.Close()
		_, err := subscription.Receive(t.Context())
		require.NoError(t, err)

		const script = "return redis.call('PUBLISH', KEYS[1], ARGV[1])"
		receivers, err := client.Eval(t.Context(), script, []string{"channel"}, "0").Int()
		require.NoError(t, err)
		assert.Equal(t, 1, receivers)
		message, err := subscription.ReceiveMessage(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "channel", message.Channel)
		assert.Equal(t, "0", message.Payload)
		require.NoError(t, subscription.Close())
		require.Eventually(t, func() bool {
			return client.PubSubNumSub(t.Context(), "channel").Val()["channel"] == 0
		}, patience, time.Millisecond)
	}
}

func TestServer_UnknownScriptIsNOSCRIPT(t *testing.T) {
	_, client := setup(t)
	script := redis.NewScript("return ARGV[1]")
	err := script.EvalSha(t.Context(), client, nil, "x").Err()
	require.Error(t, err)
	assert.True(t, redis.HasErrorPrefix(err, "NOSCRIPT"), err)

	require.NoError(t, script.Load(t.Context(), client).Err())
	assert.Equal(t, "x", script.EvalSha(t.Context(), client, nil, "x").Val())
	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	assert.True(t, redis.HasErrorPrefix(script.EvalSha(t.Context(), client, nil, "x").Err(), "NOSCRIPT"))
}

func TestServer_DiffersFromRedisAsDocumented(t *testing.T) {
	_, client := setup(t)
	replicas, err := client.Do(t.Context(), "WAIT", 1, 60_000).Int()
	require.NoError(t, err)
	assert.Zero(t, replicas)
	for _, command := range []string{"SPUBLISH", "SSUBSCRIBE", "ACL", "CONFIG", "FUNCTION"} {
		assert.ErrorContains(t, client.Do(t.Context(), command, "x", "y").Err(), "unknown command", command)
	}
}

func TestServer_ManyConnectionsAtOnce(t *testing.T) {
	_, client := setup(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 50 {
				assert.NoError(t, client.Incr(t.Context(), "n").Err())
			}
		})
	}
	wg.Wait()
	assert.Equal(t, "1000", client.Get(t.Context(), "n").Val())
}

func TestClose_EndsClientAndServerAndMayBeRepeated(t *testing.T) {
	s, client := setup(t)
	require.NoError(t, client.Ping(t.Context()).Err())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { assert.NoError(t, s.Close()) })
	}
	wg.Wait()
	assert.ErrorIs(t, client.Ping(t.Context()).Err(), redis.ErrClosed)
	_, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	assert.Error(t, err)
	assert.Same(t, client, s.Client())
}

func TestClose_EndsBlockedCommandsAndOtherConnections(t *testing.T) {
	s, client := setup(t)
	conn, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "*3\r\n$5\r\nBLPOP\r\n$1\r\nk\r\n$1\r\n0\r\n*1\r\n$4\r\nPING\r\n")
	require.NoError(t, err)
	subscription := client.Subscribe(t.Context(), "channel")
	defer subscription.Close()
	_, err = subscription.Receive(t.Context())
	require.NoError(t, err)

	requireClosesInTime(t, s)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err = io.ReadAll(conn)
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestClose_EndsAServerThatASubscriberBlocks(t *testing.T) {
	s, client := setup(t)
	deaf, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer deaf.Close()
	_, err = io.WriteString(deaf, "*2\r\n$9\r\nSUBSCRIBE\r\n$7\r\nchannel\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return client.PubSubNumSub(t.Context(), "channel").Val()["channel"] == 1
	}, patience, time.Millisecond)

	// The first messages fill the buffers between the server and the subscriber; the next ones block the server.
	publisher := redis.NewClient(&redis.Options{
		Addr: s.Addr(), MaxRetries: -1, ReadTimeout: 300 * time.Millisecond,
	})
	defer publisher.Close()
	message := strings.Repeat("x", 1<<20)
	require.Eventually(t, func() bool {
		return publisher.Publish(t.Context(), "channel", message).Err() != nil
	}, patience, time.Millisecond)
	requireClosesInTime(t, s)
}

func requireClosesInTime(t *testing.T, s *embedded.Server) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "Close hangs")
	}
}
