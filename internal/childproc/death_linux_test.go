package childproc_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/childproc"
)

// The grandchild also holds the write end of the child's output, so the output ends only when both
// processes are gone.
func TestSpawn_ChildDiesWithAKilledParent(t *testing.T) {
	h := childproc.Run(t, "parent")
	require.Equal(t, "started", h.Line())
	h.Kill()
	_, err := h.ReadLine(10 * time.Second)
	assert.Equal(t, io.EOF, err)
}
