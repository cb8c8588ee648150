package locktest

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/pipe"
)

// Bubble is a Redis inside a bubble of testing/synctest, for tests that need more than holdfasttest offers: access to the server, or hooks of
// the client.
type Bubble struct{ *miniredis.Miniredis }

// Pipes are the connections of one client to the server of a bubble.
type Pipes = pipe.Link

// NewBubble starts the server of a bubble. It ends with the test.
func NewBubble(t *testing.T) Bubble { return Bubble{pipe.NewServer(t)} }

// Runtime returns a runtime in the bubble with a client of its own. Both end with the test.
func (b Bubble) Runtime(t *testing.T, pipes *Pipes, options holdfast.Options, hooks ...redis.Hook) *holdfast.Runtime {
	t.Helper()
	client := pipes.Client(b.Miniredis)
	for _, hook := range hooks {
		client.AddHook(hook)
	}
	if options.Logger == nil {
		options.Logger = Quiet()
	}
	rt, err := holdfast.New(client, options)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); !GaveUp(err) { // the link may be cut
			assert.NoError(t, err)
		}
		_ = client.Close()
		pipes.AwaitEnd()
	})
	return rt
}
