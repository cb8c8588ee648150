package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// terminal is a run of the program. The lines that it prints can be read one after the other.
type terminal struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "start")
	built, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(built))
	return program
}

func open(t *testing.T, program, redis string) terminal {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "HOLDFAST_REDIS="+redis)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = io.Discard
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return terminal{cmd, bufio.NewScanner(out)}
}

func (r terminal) line(t *testing.T) string {
	t.Helper()
	require.True(t, r.lines.Scan(), "the program prints another line")
	return r.lines.Text()
}

// Without a Redis, the exit code of the program is 1, so that a supervisor sees that it has failed.
func TestStart_FailsWithoutRedis(t *testing.T) {
	t.Parallel()
	program := build(t)
	failed := exec.Command(program)
	failed.Env = append(os.Environ(), "HOLDFAST_REDIS=redis://127.0.0.1:1")
	require.Error(t, failed.Run())
	assert.Equal(t, 1, failed.ProcessState.ExitCode())
}

// In two terminals the program of doc/start.md prints what that page says.
func TestStart_TwoTerminalsShareALock(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("on Windows a process cannot be sent Ctrl-C")
	}
	program := build(t)
	redis := redistest.Start(t).URL()

	first := open(t, program, redis)
	assert.Equal(t, "waiting for the lock", first.line(t))
	assert.Equal(t, "got the lock; Ctrl-C releases it", first.line(t))
	second := open(t, program, redis)
	assert.Equal(t, "waiting for the lock", second.line(t))

	require.NoError(t, first.Process.Signal(os.Interrupt))
	assert.Equal(t, "the end: interrupt signal received", first.line(t))
	require.NoError(t, first.Wait())
	assert.Equal(t, "got the lock; Ctrl-C releases it", second.line(t))
	require.NoError(t, second.Process.Signal(os.Interrupt))
	assert.Equal(t, "the end: interrupt signal received", second.line(t))
	require.NoError(t, second.Wait())
}
