//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// container starts holdfast as process 1 of its own PID namespace, as in a container.
func container(t *testing.T, url string, args ...string) *invocation {
	t.Helper()
	output, err := built()
	require.NoError(t, err, "%s", output)
	isolated := func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		if os.Getuid() != 0 {
			c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
	}
	probe := exec.Command("true")
	isolated(probe)
	if err := probe.Run(); err != nil {
		t.Skipf("this system allows no namespace of processes: %v", err)
	}
	// The new processes need their own /proc, and therefore their own mount namespace.
	return holdfastWith(t, url, func(c *exec.Cmd) {
		isolated(c)
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNS
		mounted := []string{"/bin/sh", "-c", `mount -t proc proc /proc && exec "$@"`, "sh"}
		c.Path, c.Args = mounted[0], append(mounted, c.Args...)
	}, args...)
}

// children returns the processes whose parent is process 1 of the container.
func (i *invocation) children(t *testing.T) (pids []int) {
	t.Helper()
	for pid, fields := range processes(t) {
		if fields[1] == strconv.Itoa(i.cmd.Process.Pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// As process 1, holdfast reaps orphans that other processes leave behind, even while it waits for the lock.
func TestContainer_CollectsOrphans(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	name, folder := redistest.Name(t), t.TempDir()
	// Each orphan first has another process of the container as its parent, and runs until a file appears.
	orphans := `for i in 1 2 3 4 5; do (setsid sh -c 'echo x >>"$0/begun"; while ! test -e "$0/end"; do sleep 0.01; done' "$0" &) ; done; `
	runs := container(t, server.URL(), "exec", name, "--", "sh", "-c", orphans+`while ! test -e "$0/over"; do sleep 0.01; done; exit 4`, folder)
	locktest.Await(t, "the orphans", func() bool {
		begun, _ := os.ReadFile(filepath.Join(folder, "begun"))
		return len(begun) == 10 && len(runs.children(t)) == 5+2
	})
	create(t, filepath.Join(folder, "end"))
	locktest.Await(t, "the orphans to be collected", func() bool {
		return len(runs.children(t)) == 2 // the guardian and the command
	})

	waiter := container(t, server.URL(), "exec", name, "--", "true")
	client := server.Client(t)
	channel := "redisson_lock__channel:{" + name + "}"
	locktest.Await(t, "the waiter to listen", func() bool { return client.PubSubNumSub(t.Context(), channel).Val()[channel] > 0 })
	enter(t, waiter, "sh", "-c", "sleep 0.01 &")
	locktest.Await(t, "the orphan to be collected", func() bool { return len(waiter.children(t)) == 0 })

	create(t, filepath.Join(folder, "over"))
	assert.Equal(t, 4, runs.code(), "%s", runs.err.String())
	assert.Equal(t, 0, waiter.code(), "%s", waiter.err.String())
	for _, i := range []*invocation{runs, waiter} {
		assert.NotContains(t, i.err.String(), "have not", "the guardian counts as a process that the command has left behind")
	}
}

// enter runs a command in a container, as "docker exec" does. The command's parent is outside the container.
func enter(t *testing.T, in *invocation, command ...string) {
	t.Helper()
	needs(t, "nsenter")
	args := append([]string{"--target", strconv.Itoa(in.cmd.Process.Pid), "--pid", "--mount", "--"}, command...)
	nsenter := exec.Command("nsenter", args...)
	// A process that the command leaves behind must not be in the process group of the tests. If that process ended while another process of the
	// group was stopped, the kernel would send SIGHUP to the whole group.
	nsenter.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := nsenter.CombinedOutput()
	if err != nil && os.Getuid() != 0 {
		t.Skipf("only root may enter the container: %s", output)
	}
	require.NoError(t, err, "%s", output)
}

// "docker stop" sends SIGTERM. holdfast passes it on to the command, which may ignore it. holdfast ends with the exit code of the command, with 76 if
// the lock was lost, or with 137 if holdfast was killed. No process is left.
func TestContainer_Stop(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	for what, c := range map[string]struct {
		then string
		code int
		quit func(t *testing.T, i *invocation, name string)
	}{
		"obeys":   {"exec sleep 1000", 143, term},
		"decides": {`trap 'exit 9' TERM; : >"$0.ready"; while :; do sleep 0.01; done`, 9, term},
		"deaf": {"trap '' TERM; sleep 1000 & sleep 1000 & wait", 76, func(t *testing.T, i *invocation, name string) {
			term(t, i, name)
			require.NoError(t, client.Del(t.Context(), name).Err())
		}},
		"killed": {"setsid sleep 1000 & sleep 1000 & wait", 137, func(t *testing.T, i *invocation, _ string) {
			require.NoError(t, i.cmd.Process.Kill())
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := redistest.Name(t)
			file, command := script(t, c.then)
			i := container(t, server.URL(), append([]string{"exec", name, "--lease", "3s", "--grace", "300ms", "--"}, command...)...)
			pidIn(t, file)
			if strings.Contains(c.then, ".ready") {
				locktest.Await(t, "the trap", func() bool { return exists(file + ".ready") })
			}
			pids := i.children(t)
			require.Len(t, pids, 2, "the guardian and the command")
			c.quit(t, i, name)
			assert.Equal(t, c.code, i.code(), "%s", i.err.String())
			for _, pid := range pids {
				assert.False(t, running(t, pid))
			}
			if what != "killed" {
				assert.Zero(t, client.Exists(t.Context(), name).Val(), "the lock is released")
			}
		})
	}
}

func term(t *testing.T, i *invocation, _ string) {
	t.Helper()
	require.NoError(t, i.cmd.Process.Signal(syscall.SIGTERM))
}

// After the command has ended, another process may get its process ID. The guardian does not kill that process.
func TestContainer_ProcessIDIsReused(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name, folder := server.Client(t), redistest.Name(t), t.TempDir()
	// The guardian does not end while a process that the command has left behind is alive.
	file, command := script(t, `(trap '' TERM; exec sleep 1000) & exit 3`)
	i := container(t, server.URL(), append([]string{"exec", name, "--lease", "12s", "--grace", "6s", "--"}, command...)...)
	pid := strconv.Itoa(pidIn(t, file)) // as the container numbers it
	enter(t, i, "sh", "-c", `while kill -0 "$0" 2>/dev/null; do sleep 0.01; done
		for _ in 1 2 3 4 5 6 7 8 9; do
			echo "$(($0 - 1))" >/proc/sys/kernel/ns_last_pid || exit 0
			sleep 1000 <&- >&- 2>&- &
			if test "$!" = "$0"; then : >"$1/reused"; exit; fi
		done`, pid, folder)
	if !exists(filepath.Join(folder, "reused")) {
		t.Skip("this system does not let the test choose a process ID")
	}
	stranger := 0
	for _, child := range i.children(t) {
		status, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/status")
		if strings.Contains(string(status), "\t"+pid+"\n") {
			stranger = child
		}
	}
	require.True(t, running(t, stranger))
	require.NoError(t, i.cmd.Process.Signal(syscall.SIGSTOP))
	locktest.Await(t, "the lease to end", func() bool { return client.Exists(t.Context(), name).Val() == 0 })
	assert.True(t, running(t, stranger))
	require.NoError(t, i.cmd.Process.Signal(syscall.SIGCONT))
	assert.Equal(t, 76, i.code(), "%s", i.err.String())
}
