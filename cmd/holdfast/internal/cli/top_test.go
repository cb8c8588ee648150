package cli

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

// A look that was slow or timed out has kept Redis busy, so a long pause follows. If a look failed sooner, Redis is probably unreachable, and the
// pause has its usual length.
func TestTop_PausesAfterALook(t *testing.T) {
	t.Parallel()
	o := topOptions{every: 10 * time.Second}
	for name, c := range map[string]struct {
		look look
		want time.Duration
	}{
		"quick":     {look{took: time.Second}, 9 * time.Second},
		"slow":      {look{took: 5 * time.Second}, 20 * time.Second},
		"failed":    {look{took: 5 * time.Second, err: errors.New("refused")}, 10 * time.Second},
		"timed out": {look{took: topWait, err: context.DeadlineExceeded}, 4 * topWait},
	} {
		assert.Equal(t, c.want, o.pause(c.look), name)
	}
}

func TestTop_NamesTheServer(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://a:1":          "a:1",
		"redis://a:1,b:2":      "cluster at a:1",
		"redis://a:1?master=m": "the Sentinels' master",
	} {
		client, err := connect.Open(url, func(string) {})
		require.NoError(t, err)
		assert.Equal(t, want, connectedTo(client))
		assert.NoError(t, client.Close())
	}
}
