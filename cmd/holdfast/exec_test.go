//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/embedded"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// forever is a command that only a signal ends.
const forever = "sleep 1000 & wait"

func TestExec_ExitCodes(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	name := redistest.Name(t)
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"exec", name, "--", "true"}, 0},
		{[]string{"exec", name, "--", "sh", "-c", "exit 7"}, 7},
		{[]string{"exec", name, "--", "sh", "-c", "kill -KILL $$"}, 128 + 9},
		{[]string{"exec", name, "--", "sh", "-c", "kill -TERM $$"}, 128 + 15},
		{[]string{"exec", name, "--", "/no/such/command"}, 127},
		{[]string{"exec", "-q", name, "--", "no-such-command"}, 127},
		{[]string{"exec", name, "--", "/etc/passwd"}, 126},
		{[]string{"exec", "-q", name, "--", "/tmp"}, 126},
		{[]string{"exec", name, "--", ""}, 127},
		{[]string{"exec", name}, 64},
		{[]string{"exec", name, "true"}, 64},
		{[]string{"exec", "--", "true"}, 64},
		{[]string{"exec", name, "--try", "--wait", "1s", "--", "true"}, 64},
		{[]string{"exec", name, "--wait", "0", "--", "true"}, 64},
		{[]string{"exec", name, "--at-most", "0s", "--", "true"}, 64},
		{[]string{"exec", name, "--kind", "latch", "--", "true"}, 64},
		{[]string{"exec", name, "--grace", "16s", "--", "true"}, 64},
		{[]string{"exec", name, "--at-most", "2s", "--grace", "2s", "--", "true"}, 64},
		{[]string{"exec", name, "--at-least", "2s", "--at-most", "1s", "--", "true"}, 64},
		{[]string{"exec", name, "--lease", "1ms", "--", "true"}, 64},
		{[]string{"exec", name, "--permits", "2", "--kind", "lock", "--", "true"}, 64},
		{[]string{"exec", name, "--no-such-flag", "--", "true"}, 64},
		{[]string{"exec", "a\nb", "--", "true"}, 64},
		{[]string{"--redis", "redis://127.0.0.1:1", "exec", name, "--", "true"}, 69},
		{[]string{"--redis", "redis://127.0.0.1:1", "exec", name, "--wait", "200ms", "-E", "0", "--", "true"}, 69},
		{[]string{"--redis", "redis://127.0.0.1:1", "exec", name, "--try", "-E", "0", "--", "true"}, 69},
		{[]string{"--redis", "http://x", "exec", name, "--", "true"}, 64},
		{[]string{"no-such-command"}, 64},
		{[]string{}, 64},
		{[]string{"help"}, 0},
		{[]string{"exec", "--help"}, 0},
	} {
		_, err, code := ends(t, server.URL(), c.args...)
		assert.Equal(t, c.want, code, "%q: %s", c.args, err)
		if c.want >= 64 && c.want < 128 {
			assert.NotEmpty(t, err, "%q", c.args)
		}
	}
}

// If a flag is unknown, the message shows the word as the user wrote it. If the word combines several short flags, the message says how to write
// them.
func TestUsage_NamesTheFlagAsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"exec", "-nq", "jobs", "--", "true"}, "holdfast exec: unknown flag -nq: write -n -q\n"},
		{[]string{"exec", "jobs", "-qnE", "--", "true"}, "holdfast exec: unknown flag -qnE: write -q -n -E\n"},
		{[]string{"exec", "-nx", "jobs", "--", "true"}, "holdfast exec: unknown flag -nx\n"},
		{[]string{"exec", "-x", "jobs", "--", "true"}, "holdfast exec: unknown flag -x\n"},
		{[]string{"exec", "--nq", "jobs", "--", "true"}, "holdfast exec: unknown flag --nq\n"},
		{[]string{"exec", "--no=secret", "jobs", "--", "true"}, "holdfast exec: unknown flag --no\n"},
		{[]string{"exec", "jobs", "--try", "-a\x1bb", "--", "true"}, "holdfast exec: unknown flag \"-a\\x1bb\"\n"},
		{[]string{"--jsno", "ls"}, "holdfast: unknown flag --jsno\n"},
	} {
		_, err, code := ends(t, "redis://127.0.0.1:1", c.args...)
		assert.Equal(t, 64, code, "%q", c.args)
		assert.Truef(t, strings.HasPrefix(err, c.want), "%q: %s", c.args, err)
	}
}

// go-redis and the system quote parts of a URL as they are.
func TestUsage_EscapesTheURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://h?%1b[31mred=1", "rediss://h?ca=/%1b[31mred"} {
		_, errs, code := ends(t, url, "ls")
		assert.Equal(t, 64, code)
		assert.Contains(t, errs, `\x1b[31mred`)
		for line := range strings.Lines(errs) {
			printable(t, strings.TrimSuffix(line, "\n"))
		}
	}
}

// A lease of 0s is refused. The library would take it for the default.
func TestUsage_NoLease(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"exec", "lead"} {
		_, err, code := ends(t, "redis://127.0.0.1:1", command, "--lease", "0s", "jobs", "--", "true")
		assert.Equal(t, 64, code, command)
		assert.Contains(t, err, "holdfast "+command+": --lease must be from 50ms to 24h, not 0s\n")
	}
}

// With --grace 0s, holdfast reports no processes if the command has left none behind.
func TestExec_NoGrace(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	locktest.Await(t, "a run whose guardian leaves the group in time", func() bool {
		_, err, code := ends(t, server.URL(), "exec", redistest.Name(t), "--grace", "0s", "--", "true")
		assert.Equal(t, 0, code)
		return err == ""
	})
}

func TestExec_EveryKind(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, server.Close()) }()
	url := "redis://" + server.Addr()
	const show = `echo "$HOLDFAST_NAME $HOLDFAST_ID $HOLDFAST_TOKEN"`
	for _, kind := range []string{"lock", "fair", "fenced", "spin", "read", "write", "permit-semaphore"} {
		name := "k:" + kind
		args := []string{"exec", name, "--kind", kind}
		if kind == "permit-semaphore" {
			args = append(args, "--permits", "1")
		}
		out, errs, code := ends(t, url, append(args, "--", "sh", "-c", show)...)
		require.Equal(t, 0, code, "%s: %s", kind, errs)
		words := strings.Fields(out)
		require.Len(t, words, 3, kind)
		assert.Equal(t, name, words[0])
		assert.NotEmpty(t, words[1])
		assert.Equal(t, kind != "fenced", words[2] == "0", "%s: token %s", kind, words[2])
		if kind != "permit-semaphore" {
			assert.Zero(t, server.Client().Exists(t.Context(), name).Val(), "%s is released", kind)
		}
	}
}

// Setting the number of permits is a separate call, and the number stays. So a command line that no acquire can follow must not set it.
func TestExec_RefusedBeforeThePermitsAreSet(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	for _, flag := range []string{"--at-least", "--at-most"} {
		_, errs, code := ends(t, server.URL(), "exec", "--permits", "2", flag, "20s", name, "--", "true")
		assert.Equal(t, 64, code)
		assert.Contains(t, errs, flag)
		assert.Zero(t, client.Exists(t.Context(), name).Val(), flag)
	}
}

// --wait also limits how long holdfast tries to set the number of permits.
func TestExec_WaitLimitsPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Pause()
	_, errs, code := ends(t, server.URL(), "exec", "--permits", "2", "--wait", "100ms", "encoder", "--", "true")
	assert.Equal(t, 69, code)
	assert.Contains(t, errs, "context deadline exceeded")
}

func TestExec_Taken(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	file, command := script(t, forever)
	holder := holdfast(t, server.URL(), append([]string{"exec", name, "--"}, command...)...)
	pid := pidIn(t, file)
	_, errs, code := ends(t, server.URL(), "exec", "--try", name, "--", "true")
	assert.Equal(t, 75, code)
	assert.Contains(t, errs, "held by")
	_, _, code = ends(t, server.URL(), "exec", "--wait", "100ms", name, "--", "true")
	assert.Equal(t, 75, code)
	_, errs, code = ends(t, server.URL(), "exec", "-n", "-q", "-E", "0", name, "--", "false")
	assert.Equal(t, 0, code)
	assert.Empty(t, errs)

	waiter := holdfast(t, server.URL(), "exec", name, "--", "echo", "mine")
	locktest.Await(t, "the waiter to listen", func() bool {
		return client.PubSubNumSub(t.Context(), "redisson_lock__channel:{"+name+"}").Val()["redisson_lock__channel:{"+name+"}"] > 0
	})
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	assert.Equal(t, 137, holder.code())
	assert.Equal(t, 0, waiter.code())
	assert.Equal(t, "mine\n", waiter.out.String())
}

// A signal ends the wait for the lock. While the command runs, the signal reaches the command's whole group.
func TestExec_Signals(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			name := redistest.Name(t)
			// A shell's background commands ignore SIGINT and SIGQUIT, and would survive. So the script starts none: sleep replaces the shell.
			file, command := script(t, "exec sleep 1000")
			holder := holdfast(t, server.URL(), append([]string{"exec", name, "--"}, command...)...)
			group := groupOf(t, pidIn(t, file))
			waiter := holdfast(t, server.URL(), "exec", name, "--", "true")
			locktest.Await(t, "the waiter to listen", func() bool {
				return client.PubSubNumSub(t.Context(), "redisson_lock__channel:{"+name+"}").Val()["redisson_lock__channel:{"+name+"}"] > 0
			})
			require.NoError(t, waiter.cmd.Process.Signal(s))
			assert.Equal(t, 128+int(s), waiter.code())
			require.NoError(t, holder.cmd.Process.Signal(s))
			assert.Equal(t, 128+int(s), holder.code())
			assertGone(t, group)
			assert.Zero(t, client.Exists(t.Context(), name).Val(), "the lock is released")
		})
	}
}

func TestExec_CommandDecidesAboutSignals(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	file, command := script(t, `trap 'echo usr1' USR1; trap 'echo term; exit 9' TERM; : >"$0.ready"; while :; do sleep 0.01; done`)
	holder := holdfast(t, server.URL(), append([]string{"exec", redistest.Name(t), "--"}, command...)...)
	locktest.Await(t, "the command's traps", func() bool { _, err := os.Stat(file + ".ready"); return err == nil })
	group := groupOf(t, pidIn(t, file))
	require.NoError(t, holder.cmd.Process.Signal(syscall.SIGUSR1))
	require.NoError(t, holder.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 9, holder.code())
	assert.Contains(t, holder.out.String(), "term")
	assertGone(t, group)
}

// Processes that the command leaves behind in its group are ended before the lock is released.
func TestExec_ProcessesLeftBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	file, command := script(t, `(trap '' TERM; sleep 1000; sleep 1000; sleep 1000) & exit 3`)
	holder := holdfastWith(t, server.URL(), func(c *exec.Cmd) { c.Stdout, c.Stderr = nil, nil },
		append([]string{"exec", name, "--grace", "300ms", "--"}, command...)...)
	pidIn(t, file)
	assert.Equal(t, 3, holder.code())
	assert.Zero(t, client.Exists(t.Context(), name).Val())
	for pid := range processes(t) {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		assert.NotContains(t, string(line), file)
	}
}

// If the standard streams of the command and of holdfast are closed, a lost lock still ends the command.
func TestExec_LostTerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	file, command := script(t, forever)
	holder := holdfastWith(t, server.URL(), func(c *exec.Cmd) { c.Stdout, c.Stderr = write, write },
		append([]string{"exec", name, "--lease", "2s", "--grace", "300ms", "--"}, command...)...)
	group := groupOf(t, pidIn(t, file))
	require.NoError(t, write.Close())
	require.NoError(t, read.Close())
	require.NoError(t, client.Del(t.Context(), name).Err()) // holdfast then reports the loss on the closed stream
	assert.Equal(t, 76, holder.code())
	assertGone(t, group)
}

// If nobody reads what holdfast writes (for example, because Ctrl-S has paused the terminal), the command still gets its signals.
func TestExec_NobodyReadsTheMessages(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	for what, flag := range map[string]string{"lost": "--lease=6s", "at most": "--at-most=6s"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := redistest.Name(t)
			full := fullPipe(t)
			file, command := script(t, `trap ': >"$0.told"; exit 0' TERM; `+forever)
			holder := holdfastWith(t, server.URL(), func(c *exec.Cmd) { c.Stderr = full },
				append([]string{"exec", name, "--grace", "2s", flag, "--"}, command...)...)
			pidIn(t, file)
			if what == "lost" {
				require.NoError(t, client.Del(t.Context(), name).Err())
			}
			assert.Equal(t, 76, holder.code())
			assert.True(t, exists(file+".told"), "SIGTERM")
		})
	}
}

// fullPipe returns a pipe that takes nothing more until somebody reads it.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = read.Close(); _ = write.Close() })
	raw, err := write.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Write(func(fd uintptr) bool {
		for err == nil { // the pipe does not block
			_, err = syscall.Write(int(fd), make([]byte, 1<<16))
		}
		return true
	}))
	require.ErrorIs(t, err, syscall.EAGAIN)
	return write
}

func TestExec_AtMost(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	name := redistest.Name(t)
	file, command := script(t, "trap '' TERM; "+forever)
	holder := holdfast(t, server.URL(), append([]string{"exec", name, "--at-most", "1s", "--grace", "200ms", "--"}, command...)...)
	group := groupOf(t, pidIn(t, file))
	start := time.Now()
	assert.Equal(t, 76, holder.code())
	assert.Less(t, time.Since(start), time.Second+locktest.Slack())
	assertGone(t, group)
}

// If --at-most is short, the default of --grace is shorter, too. With the usual default, the command would get SIGTERM as soon as it has started.
func TestExec_ShortAtMost(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	locktest.Await(t, "a command that starts in time", func() bool {
		out, errs, code := ends(t, server.URL(), "exec", redistest.Name(t), "--at-most", "200ms", "--", "sh", "-c", "echo started; "+forever)
		assert.Equal(t, 76, code, errs)
		return out == "started\n"
	})
}

// If the command ends soon after SIGTERM, holdfast ends, too. It does not wait for the rest of --grace.
func TestExec_StoppedCommandEndsInItsGrace(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	_, errs, code := ends(t, server.URL(), "exec", redistest.Name(t), "--lease", "2m", "--at-most", "1m", "--grace", "59s", "--", "sleep", "1000")
	assert.Equal(t, 76, code, errs)
}

func TestExec_AtLeast(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	name := redistest.Name(t)
	_, errs, code := ends(t, server.URL(), "exec", name, "--at-least", "1h", "--", "sh", "-c", "exit 4")
	require.Equal(t, 4, code, errs)
	assert.Greater(t, server.Client(t).PTTL(t.Context(), name).Val(), 59*time.Minute)
	_, _, code = ends(t, server.URL(), "exec", name, "--try", "--", "true")
	assert.Equal(t, 75, code)
}

// The exit code is 76 if the command has succeeded, but the lock was lost before it ended.
func TestExec_LostBeforeTheEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	file, command := script(t, `while ! test -e "$0.go"; do sleep 0.01; done`)
	holder := holdfast(t, server.URL(), append([]string{"exec", name, "--"}, command...)...)
	pidIn(t, file)
	require.NoError(t, client.Del(t.Context(), name).Err())
	require.NoError(t, os.WriteFile(file+".go", nil, 0o600))
	assert.Equal(t, 76, holder.code())
	assert.Contains(t, holder.err.String(), "lost before the command ended")
}
