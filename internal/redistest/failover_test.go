package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestGuarded_FailsOverAndBack(t *testing.T) {
	t.Parallel()
	g := redistest.StartGuarded(t, time.Second)
	client := g.Client(t)
	for range 2 {
		require.NoError(t, client.Set(t.Context(), "x", "y", 0).Err())
		require.EqualValues(t, 1, client.Do(t.Context(), "wait", 1, 5000).Val())
		old := g.Master()
		g.FailOver()
		assert.NotEqual(t, old.Addr(), g.Master().Addr())
		assert.Equal(t, "y", g.Master().Client(t).Get(t.Context(), "x").Val())
		g.Restore()
	}
}

func TestCluster_FailsOverAndBack(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1, time.Second)
	for range 2 {
		old := c.Owner("x")
		c.FailOver("x")
		assert.NotEqual(t, old.Addr(), c.Owner("x").Addr())
		c.Restore()
	}
}
