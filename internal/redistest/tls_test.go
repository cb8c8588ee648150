package redistest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestStartTLS_SpeaksNothingElse(t *testing.T) {
	authority := redistest.NewAuthority(t)
	server := redistest.StartTLS(t, authority, time.Hour)
	options := server.Options()
	options.DialerRetries, options.MaxRetries, options.TLSConfig = 1, -1, nil
	plain := redis.NewClient(options)
	defer plain.Close()
	assert.Error(t, plain.Ping(t.Context()).Err())

	client := server.Client(t)
	require.NoError(t, client.Ping(t.Context()).Err())
	server.Restart()
	require.Eventually(t, func() bool { return client.Ping(t.Context()).Err() == nil }, 10*time.Second, time.Millisecond)
}

func TestStartTLS_SaysThatThereIsNone(t *testing.T) {
	without := filepath.Join(t.TempDir(), "redis-server")
	text := "#!/bin/sh\necho \">>> 'tls-port \\\"7\\\"'\"; echo 'Bad directive or wrong number of arguments'; exit 1\n"
	require.NoError(t, os.WriteFile(without, []byte(text), 0o700))
	t.Setenv("HOLDFAST_REDIS_SERVER", without)
	fatal := fatalOf(t, func(tb testing.TB) { redistest.StartTLS(tb, redistest.NewAuthority(tb), time.Hour) })
	assert.Contains(t, fatal, "is built without TLS")
}
