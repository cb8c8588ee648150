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
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // without this call, the commands would ignore SIGHUP if the tests run under nohup
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

// holdfast starts the command, and kills it when the test ends.
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

// code waits for holdfast to end, and returns its exit code, or 128 + the signal that ended it.
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

// ends runs a command that ends soon, and returns its output and exit code.
func ends(t *testing.T, url string, args ...string) (out, err string, code int) {
	t.Helper()
	i := holdfast(t, url, args...)
	code = i.code()
	return i.out.String(), i.err.String(), code
}

// script returns a shell command that writes its process ID to a file and then executes the given shell code.
func script(t *testing.T, then string) (file string, args []string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "pid")
	return file, []string{"sh", "-c", `echo $$ >"$0.new"; mv "$0.new" "$0"; ` + then, file}
}

// pidIn waits until a file contains a process ID, and returns it.
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

func groupOf(t *testing.T, pid int) int {
	t.Helper()
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	return group
}

// alive returns the processes of a group that can still run, except for the guardian, which leads the group.
func alive(t *testing.T, group int) (pids []int) {
	t.Helper()
	for pid, fields := range processes(t) {
		if state := fields[0]; fields[2] == strconv.Itoa(group) && state != "Z" && state != "X" && pid != group {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processes returns, for each process, the fields of /proc/PID/stat from the state on.
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

// assertGone fails the test if a process of the group is left, including the guardian.
func assertGone(t *testing.T, group int) {
	t.Helper()
	assert.ErrorIs(t, syscall.Kill(-group, 0), syscall.ESRCH, "processes are left: %v", alive(t, group))
	assert.ErrorIs(t, syscall.Kill(group, 0), syscall.ESRCH, "the guardian is left")
}

// pause waits for a duration that is part of the test.
func pause(d time.Duration) { <-time.After(d) }
