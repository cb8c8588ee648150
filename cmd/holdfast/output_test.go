//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Output that cannot be written is an error.
func TestOutput_DiskIsFull(t *testing.T) {
	t.Parallel()
	server, name := redistest.Shared(t), redistest.Name(t)
	require.NoError(t, server.Client(t).HSet(t.Context(), name, locktest.Stranger(1), 1).Err())
	for _, args := range [][]string{
		{"ls"}, {"ls", "--json"}, {"show", name}, {"show", "--json", name}, {"acl"}, {"check"}, {"completion", "bash"}, {"help"}, {"help", "ls"},
		{"free", "--yes", name},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		i := holdfastWith(t, server.URL(), func(c *exec.Cmd) { c.Stdout = full }, args...)
		assert.Equal(t, 1, i.code(), "%q", args)
		assert.Contains(t, i.err.String(), "no space left", "%q", args)
		require.NoError(t, full.Close())
	}
}

// If the reader of the command's output goes away, SIGPIPE ends the command, as it would without holdfast.
func TestOutput_ReaderLeaves(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	i := holdfastWith(t, server.URL(), func(c *exec.Cmd) { c.Stdout = write }, "exec", redistest.Name(t), "--", "yes")
	require.NoError(t, write.Close())
	_, err = read.Read(make([]byte, 2))
	require.NoError(t, err)
	require.NoError(t, read.Close())
	assert.Equal(t, 128+13, i.code())
}
