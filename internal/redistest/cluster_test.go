package redistest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestStartCluster_ServesAllSlots(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, 2*time.Second)
	client := cluster.Client(t)
	owners := map[string]bool{}
	for i := range 50 {
		key := fmt.Sprint("key ", i)
		require.NoError(t, client.Set(t.Context(), key, i, 0).Err())
		owners[cluster.Owner(key).Addr()] = true
	}
	assert.Len(t, owners, 3)
}

func TestCluster_MoveTakesKeysAlong(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0, 2*time.Second)
	client := cluster.Client(t)
	require.NoError(t, client.MSet(t.Context(), "{x}1", 1, "{x}2", 2).Err())
	from := cluster.Owner("{x}")
	to := cluster.Masters[0]
	if to == from {
		to = cluster.Masters[1]
	}
	slot := int(client.ClusterKeySlot(t.Context(), "{x}").Val())
	between := 0
	cluster.Move(slot, from, to, func() { between++ })
	assert.Equal(t, 1, between)
	assert.Equal(t, "2", client.Get(t.Context(), "{x}2").Val())
	assert.EqualValues(t, 2, to.Client(t).DBSize(t.Context()).Val())
}
