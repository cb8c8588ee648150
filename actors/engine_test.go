package actors

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No two grants of a runtime have one ID, also when the operating system's chance gives the same again and again.
func TestGrant_IDsAreUsedOnce(t *testing.T) {
	t.Parallel()
	e := &Engine{id: "f4a0c9de-8f0f-4d4e-b7b9-5d1c3b1d2e4f", salt: func() uint64 { return 7 }}
	e.numbers.Store(1<<40 - 500) // over what is left of a number beside the salt
	seen := map[string]bool{}
	for range 1000 {
		id := e.newGrantID()
		require.False(t, seen[id], id)
		require.True(t, strings.HasPrefix(id, e.id+":"), id)
		seen[id] = true
	}
}
