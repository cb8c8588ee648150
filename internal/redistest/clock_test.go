package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestClock_KeysExpireByIt(t *testing.T) {
	server, clock := redistest.StartWithClock(t)
	client := server.Client(t)
	require.NoError(t, client.Set(t.Context(), "k", "v", time.Minute).Err())
	clock.Set(-time.Hour)
	assert.Greater(t, client.PTTL(t.Context(), "k").Val(), time.Hour)
	assert.Less(t, time.Until(client.Time(t.Context()).Val()), -59*time.Minute)
	clock.Set(time.Hour)
	assert.Zero(t, client.Exists(t.Context(), "k").Val())
	server.Restart()
	assert.Greater(t, time.Until(client.Time(t.Context()).Val()), 59*time.Minute, "also after a restart")
}

func TestClock_SaysWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	fatal := fatalOf(t, func(tb testing.TB) { redistest.StartWithClock(tb) })
	assert.Contains(t, fatal, "gcc is missing")
}
