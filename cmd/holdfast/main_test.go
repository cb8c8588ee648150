//go:build unix

package main_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // else the commands would ignore it too if this process was started by nohup
	folder, err := os.MkdirTemp("", "holdfast-command-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(folder, "holdfast")
	redistest.AtEnd(func() { _ = os.RemoveAll(folder) })
	locktest.Main(m)
}

var (
	binary string
	built  = sync.OnceValues(func() ([]byte, error) { return exec.Command("go", "build", "-o", binary, ".").CombinedOutput() })
)

// invocation is one run of the command.
type invocation struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err bytes.Buffer
	done     chan struct{}
}

// holdfast starts the command; it is killed when the test ends.
func holdfast(t *testing.T, url string, args ...string) *invocation {
	t.Helper()
	return holdfastWith(t, url, func(*exec.Cmd) {}, args...)
}

func holdfastWith(t *testing.T, url string, change func(*exec.Cmd), args ...string) *invocation {
	t.Helper()
	output, err := built()
	require.NoError(t, err, "%s", output)
	i := &invocation{t: t, cmd: exec.Command(binary, args...), done: make(chan struct{})}
	i.cmd.Env = append(os.Environ(), "HOLDFAST_REDIS="+url)
	i.cmd.Stdout, i.cmd.Stderr = &i.out, &i.err
	i.cmd.WaitDelay = locktest.Patience
	change(i.cmd)
	require.NoError(t, i.cmd.Start())
	go func() {
		defer close(i.done)
		_ = i.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = i.cmd.Process.Signal(syscall.SIGCONT)
		_ = i.cmd.Process.Kill()
		<-i.done
	})
	return i
}

// code waits for the end, and returns the exit code; 128 + the signal that ended the command.
func (i *invocation) code() int {
	i.t.Helper()
	locktest.Closed(i.t, "the end of holdfast", i.done)
	status, ok := i.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(i.t, ok)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// ends is for commands that end soon: their output and exit code.
func ends(t *testing.T, url string, args ...string) (out, err string, code int) {
	t.Helper()
	i := holdfast(t, url, args...)
	code = i.code()
	return i.out.String(), i.err.String(), code
}

// script is a command that writes its process ID to a file, and what the shell does then.
func script(t *testing.T, then string) (file string, args []string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "pid")
	return file, []string{"sh", "-c", `echo $$ >"$0.new"; mv "$0.new" "$0"; ` + then, file}
}

// pidIn waits for the process ID in a file.
func pidIn(t *testing.T, file string) (pid int) {
	t.Helper()
	locktest.Await(t, "the command to run", func() bool {
		content, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
		return err == nil
	})
	return pid
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func create(t *testing.T, file string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, nil, 0o600))
}

// groupOf is the process group of a command.
func groupOf(t *testing.T, pid int) int {
	t.Helper()
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	return group
}

// alive are the processes of a group that can still do something, without the guardian, which leads the group.
func alive(t *testing.T, group int) (pids []int) {
	t.Helper()
	for pid, fields := range processes(t) {
		if state := fields[0]; fields[2] == strconv.Itoa(group) && state != "Z" && state != "X" && pid != group {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processes are the fields of each process in /proc, from its state on.
func processes(t *testing.T) map[int][]string {
	t.Helper()
	all := map[int][]string{}
	entries, err := os.ReadDir("/proc")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("processes are listed in /proc on Linux")
	}
	require.NoError(t, err)
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat"); err == nil {
				all[pid] = strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
			}
		}
	}
	return all
}

// assertGone fails the test if a process of the group is left, the guardian included.
func assertGone(t *testing.T, group int) {
	t.Helper()
	assert.ErrorIs(t, syscall.Kill(-group, 0), syscall.ESRCH, "processes are left: %v", alive(t, group))
	assert.ErrorIs(t, syscall.Kill(group, 0), syscall.ESRCH, "the guardian is left")
}

// pause waits for a time that is part of the test.
func pause(d time.Duration) { <-time.After(d) }
