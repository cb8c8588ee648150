//go:build linux

package main_test

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// needs skips the test if a program is not installed.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(err)
	}
}

// running reports whether a process can still run: it exists and is not a zombie.
func running(t *testing.T, pid int) bool {
	t.Helper()
	fields, found := processes(t)[pid]
	return found && fields[0] != "Z" && fields[0] != "X"
}

// stray runs exec with a command that starts a process in a new process group, as timeout does, and returns the ID of that process. The parameter
// `ends` is appended to the shell code that starts the process. If `deaf` is true, the process ignores SIGTERM.
func stray(t *testing.T, server *redistest.Server, name, ends string, deaf bool) (holder *invocation, pid int) {
	t.Helper()
	needs(t, "timeout")
	trap := ""
	if deaf {
		trap = "trap '' TERM; "
	}
	file, command := script(t, trap+"exec sleep 1000")
	command = append([]string{"sh", "-c", `timeout 1000 "$@"` + ends, "sh"}, command...)
	holder = holdfast(t, server.URL(), append([]string{"exec", name, "--lease", "6s", "--grace", "300ms", "--"}, command...)...)
	pid = pidIn(t, file)
	require.NotEqual(t, groupOf(t, holder.cmd.Process.Pid), groupOf(t, pid))
	t.Cleanup(func() { assert.False(t, running(t, pid), "the process is left") })
	return holder, pid
}

// A process may leave the command's group, but stay in its session. Such a process is ended by the same rules as the command, before the lock is
// free.
func TestExec_ProcessesThatLeaveTheGroup(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	for what, c := range map[string]struct {
		ends string
		deaf bool
		do   func(t *testing.T, holder *invocation, name string)
		code int
	}{
		"SIGTERM": {"; true", false, func(t *testing.T, holder *invocation, _ string) {
			require.NoError(t, holder.cmd.Process.Signal(syscall.SIGTERM))
		}, 143},
		"SIGTERM ignored": {"; true", true, func(t *testing.T, holder *invocation, _ string) {
			require.NoError(t, holder.cmd.Process.Signal(syscall.SIGTERM))
		}, 143},
		"holdfast killed": {"; true", false, func(t *testing.T, holder *invocation, _ string) {
			require.NoError(t, holder.cmd.Process.Kill())
		}, 137},
		"holdfast stopped": {"; true", false, func(t *testing.T, holder *invocation, name string) {
			require.NoError(t, holder.cmd.Process.Signal(syscall.SIGSTOP))
			locktest.Await(t, "the lease to end", func() bool { return client.Exists(t.Context(), name).Val() == 0 })
			require.NoError(t, holder.cmd.Process.Signal(syscall.SIGCONT))
		}, 76},
		"lock lost": {"; true", true, func(t *testing.T, _ *invocation, name string) {
			require.NoError(t, client.Del(t.Context(), name).Err())
		}, 76},
		"left behind": {` & while ! test -e "$4"; do sleep 0.01; done; exit 3`, true, func(*testing.T, *invocation, string) {}, 3},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := redistest.Name(t)
			holder, pid := stray(t, server, name, c.ends, c.deaf)
			c.do(t, holder, name)
			locktest.Await(t, "the process or the lock to end", func() bool {
				return client.Exists(t.Context(), name).Val() == 0 || !running(t, pid)
			})
			if what != "lock lost" {
				assert.False(t, running(t, pid), "the lock is free, but the process still runs")
			}
			assert.Equal(t, c.code, holder.code(), "%s", holder.err.String())
			locktest.Await(t, "the process to be dead", func() bool { return !running(t, pid) })
		})
	}
}

// A daemon keeps running, because it has its own session.
func TestExec_LeavesDaemonsAlone(t *testing.T) {
	t.Parallel()
	needs(t, "setsid")
	server := redistest.Shared(t)
	file, command := script(t, "exec sleep 1000 <&- >&- 2>&-")
	daemon := append([]string{"sh", "-c", `setsid "$@" & while ! test -e "$4"; do sleep 0.01; done`, "sh"}, command...)
	holder := holdfast(t, server.URL(), append([]string{"exec", redistest.Name(t), "--grace", "300ms", "--"}, daemon...)...)
	pid := pidIn(t, file)
	assert.Equal(t, 0, holder.code())
	assert.True(t, running(t, pid))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// A daemon that does not reap its children may leave a zombie in the group. No signal removes the zombie, so nothing waits for it.
func TestExec_LeavesDaemonsWithZombiesAlone(t *testing.T) {
	t.Parallel()
	needs(t, "setsid")
	server := redistest.Shared(t)
	name := redistest.Name(t)
	file, command := script(t, "true & exec setsid sleep 1000 <&- >&- 2>&-")
	daemon := append([]string{"sh", "-c", `"$@" & while ! test -e "$4"; do sleep 0.01; done`, "sh"}, command...)
	holder := holdfast(t, server.URL(), append([]string{"exec", name, "--lease", "1h", "--grace", "10m", "--"}, daemon...)...)
	pid := pidIn(t, file)
	assert.Equal(t, 0, holder.code())
	assert.True(t, running(t, pid))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	assert.Zero(t, server.Client(t).Exists(t.Context(), name).Val())
}

// The guardian also kills a command that leads its own session.
func TestExec_CommandThatLeavesTheSession(t *testing.T) {
	t.Parallel()
	needs(t, "setsid")
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	file, command := script(t, "trap '' TERM; sleep 1000 & wait")
	holder := holdfast(t, server.URL(), append([]string{"exec", name, "--lease", "6s", "--grace", "300ms", "--", "setsid"}, command...)...)
	pid := pidIn(t, file)
	require.Equal(t, pid, groupOf(t, pid), "the command leads a session")
	require.NoError(t, holder.cmd.Process.Signal(syscall.SIGSTOP))
	locktest.Await(t, "the lease to end", func() bool { return client.Exists(t.Context(), name).Val() == 0 })
	assert.Empty(t, alive(t, pid), "the lock is free, but the command still runs")
	require.NoError(t, holder.cmd.Process.Signal(syscall.SIGCONT))
	assert.Equal(t, 76, holder.code())
}

// An exec runs another exec as its command. If the outer exec ends the inner exec, the command of the inner exec gets the signal only once. No
// process of the inner exec outlives the outer exec.
func TestExec_InsideAnother(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	name := redistest.Name(t)
	file, command := script(t, `trap 'echo term' TERM; : >"$0.ready"; while :; do sleep 0.01; done`)
	inner := append([]string{binary, "exec", name + ":inner", "--"}, command...)
	holder := holdfast(t, server.URL(), append([]string{"exec", name, "--lease", "2s", "--grace", "1s", "--"}, inner...)...)
	group := groupOf(t, pidIn(t, file))
	locktest.Await(t, "the trap", func() bool { return exists(file + ".ready") })
	require.NoError(t, server.Client(t).Del(t.Context(), name).Err())
	assert.Equal(t, 76, holder.code(), "%s", holder.err.String())
	assert.Equal(t, 1, strings.Count(holder.out.String(), "term"))
	assert.Empty(t, alive(t, group))
	locktest.Await(t, "init to collect the guardian", func() bool { return syscall.Kill(group, 0) != nil })
}

// The whole machine is suspended, or a container is frozen, until another process holds the lock. When the machine or container resumes, the command
// is killed almost at once.
func TestExec_AllAreSuspended(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	file, command := script(t, "trap '' TERM; sleep 1000 & wait")
	holder := holdfast(t, server.URL(), append([]string{"exec", name, "--lease", "1s", "--grace", "100ms", "--"}, command...)...)
	group := groupOf(t, pidIn(t, file))
	all := append(alive(t, group), group, holder.cmd.Process.Pid)
	all = slices.DeleteFunc(all, func(pid int) bool {
		err := syscall.Kill(pid, syscall.SIGSTOP)
		if errors.Is(err, syscall.ESRCH) { // a process that the script needed only at its start
			return true
		}
		require.NoError(t, err)
		return false
	})
	_, errs, code := ends(t, server.URL(), "exec", name, "--at-least", "1h", "--", "true")
	require.Equal(t, 0, code, errs)
	require.NotEmpty(t, alive(t, group), "no process that could kill the command runs")
	stalls := locktest.NewStalls()
	defer stalls.End()
	began := time.Now()
	for _, pid := range all { // the command first
		require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	}
	locktest.Await(t, "the command to be dead", func() bool { return len(alive(t, group)) == 0 })
	assert.Less(t, time.Since(began), 50*time.Millisecond+stalls.Slack())
	assert.Equal(t, 76, holder.code())
	assertGone(t, group)
	assert.EqualValues(t, 1, client.Exists(t.Context(), name).Val(), "the lock of the other process stays")
}

// Only the guardian is stopped, and the lease is renewed meanwhile. When the guardian continues, it does not kill the command.
func TestExec_GuardianIsStopped(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	lease := locktest.Unhurried(500 * time.Millisecond)
	file, command := script(t, `while ! test -e "$0.go"; do sleep 0.01; done; exit 5`)
	holder := holdfast(t, server.URL(), append([]string{"exec", name, "--lease", lease.String(), "--"}, command...)...)
	group := groupOf(t, pidIn(t, file))
	require.NoError(t, syscall.Kill(group, syscall.SIGSTOP))
	for range 6 { // each third of the lease
		before := client.PTTL(t.Context(), name).Val()
		locktest.Await(t, "a renewal", func() bool {
			now := client.PTTL(t.Context(), name).Val()
			defer func() { before = now }()
			return now > before
		})
	}
	require.NoError(t, syscall.Kill(group, syscall.SIGCONT))
	locktest.Stays(t, "the command lives", lease/2, func() bool { return len(alive(t, group)) > 0 })
	create(t, file+".go")
	assert.Equal(t, 5, holder.code(), "%s", holder.err.String())
	assertGone(t, group)
}

// SIGTSTP, which Ctrl-Z sends, stops the command and holdfast. They also continue together.
func TestExec_StopAndContinue(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	file, command := script(t, "exec sleep 1000")
	holder := holdfastWith(t, server.URL(), func(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} },
		append([]string{"exec", redistest.Name(t), "--"}, command...)...)
	pid := pidIn(t, file)
	stopped := func() bool {
		all := processes(t)
		return all[pid][0] == "T" && all[holder.cmd.Process.Pid][0] == "T"
	}
	for range 20 {
		require.NoError(t, holder.cmd.Process.Signal(syscall.SIGTSTP))
		locktest.Await(t, "both to be stopped", stopped)
		require.NoError(t, holder.cmd.Process.Signal(syscall.SIGCONT))
		locktest.Await(t, "the command to continue", func() bool { return processes(t)[pid][0] != "T" })
	}
	require.NoError(t, holder.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, holder.code(), "%s", holder.err.String())
}
