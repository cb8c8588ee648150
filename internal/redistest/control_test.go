package redistest_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// impatient returns a client that sends a command only once and does not wait long for the reply.
func impatient(t *testing.T, s *redistest.Server) *redis.Client {
	options := s.Options()
	options.MaxRetries = -1
	options.ReadTimeout = 100 * time.Millisecond
	options.DialerRetries = 1
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestServer_PausedAnswersOnlyAfterResume(t *testing.T) {
	s := redistest.Start(t)
	client := impatient(t, s)
	require.NoError(t, client.Set(t.Context(), "k", "before", 0).Err())

	s.Pause()
	var timeout net.Error
	require.ErrorAs(t, client.Set(t.Context(), "k", "meanwhile", 0).Err(), &timeout)
	require.True(t, timeout.Timeout())

	s.Resume()
	require.Eventually(t, func() bool { return client.Get(t.Context(), "k").Val() == "meanwhile" },
		5*time.Second, time.Millisecond, "what was sent to a paused server is executed later")
}

func TestServer_PausedIsKilledWithTheTest(t *testing.T) {
	var addr string
	t.Run("inner", func(t *testing.T) {
		s := redistest.Start(t)
		addr = s.Addr()
		s.Pause()
	})
	_, err := net.DialTimeout("tcp", addr, time.Second)
	assert.Error(t, err)
}

func TestServer_KilledRefusesUntilRestart(t *testing.T) {
	s := redistest.Start(t)
	client := impatient(t, s)
	addr, pid := s.Addr(), s.PID()
	require.NoError(t, client.Set(t.Context(), "k", "v", 0).Err())

	s.Kill()
	require.Error(t, client.Ping(t.Context()).Err())
	_, err := net.DialTimeout("tcp", addr, time.Second)
	require.Error(t, err)

	s.Restart()
	assert.Equal(t, addr, s.Addr())
	assert.NotEqual(t, pid, s.PID())
	assert.ErrorIs(t, s.Client(t).Get(t.Context(), "k").Err(), redis.Nil, "nothing is kept")
}

func TestServer_RestartOfARunningServer(t *testing.T) {
	s := redistest.Start(t)
	for range 5 {
		s.Restart()
		require.NoError(t, s.Client(t).Ping(t.Context()).Err())
	}
}

func TestServer_RestartKeepsTheDirectory(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	require.NoError(t, s.Client(t).Set(t.Context(), "k", "v", 0).Err())
	s.Restart()
	assert.Equal(t, "v", s.Client(t).Get(t.Context(), "k").Val())
}

func TestServer_CommandStatsCountCalls(t *testing.T) {
	s := redistest.Start(t)
	client := s.Client(t)
	for range 3 {
		require.NoError(t, client.Eval(t.Context(), "return redis.call('set', KEYS[1], 1)", []string{"k"}).Err())
	}
	require.NoError(t, client.ScriptLoad(t.Context(), "return 1").Err())

	assert.Equal(t, map[string]int64{"eval": 3, "set": 3, "script|load": 1, "get": 0},
		s.CommandStats(t, "eval", "set", "script|load", "get"))
	assert.Equal(t, int64(3), s.CommandStats(t)["eval"])
}
