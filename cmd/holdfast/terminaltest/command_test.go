//go:build unix

package terminaltest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestFree_AsksOnATerminal(t *testing.T) {
	t.Parallel()
	server := contended(t)
	for _, answer := range []struct {
		keys, says string
		code       int
	}{{"n\r", "left as it is", 1}, {"\r", "left as it is", 1}, {"yes\r", "freed stock", 0}} {
		x := open(t, 80, 24)
		x.run(server.URL(), binary, "free", "stock")
		x.shows("held by   shop@web-1:4711", "Free stock by force? [y/N]")
		x.types(answer.keys)
		x.shows(answer.says)
		assert.Equal(t, answer.code, x.code())
	}
}

// If the holder changes before the user answers, the answer y does not free the new holder's lock. Instead, holdfast shows the new holder and asks
// again.
func TestFree_AsksAgainAboutAnotherHolder(t *testing.T) {
	t.Parallel()
	server, x := redistest.Start(t), open(t, 80, 24)
	client := server.Client(t)
	a, b := service(t, client, "a@1"), service(t, client, "b@2")
	lease := hold(t, a.Lock("stock"))
	x.run(server.URL(), binary, "free", "stock")
	x.shows("a@1", "Free stock by force? [y/N]")
	require.NoError(t, lease.Release(t.Context()))
	lease = hold(t, b.Lock("stock"))
	x.types("y\r")
	x.shows("stock has another holder by now; nothing was freed", "b@2")
	assert.Equal(t, []string{lease.ID()}, holdersOf(t, client, "stock"))
	x.types("y\r")
	x.shows("freed stock")
	assert.Equal(t, 0, x.code())
}

func TestLs_FitsTheTerminal(t *testing.T) {
	t.Parallel()
	server := contended(t)
	for _, columns := range []int{100, 40, 20} {
		x := open(t, columns, 24)
		x.run(server.URL(), binary, "ls")
		assert.Equal(t, 0, x.code())
		x.shows("orders", "stock", "billing")
		locktest.Await(t, "one line each", func() bool { return lines(x) == 4 })
	}
}

// lines counts the lines on the screen that are not empty.
func lines(x *terminal) (n int) {
	for _, line := range splitLines(x.String()) {
		if line != "" {
			n++
		}
	}
	return n
}

// Ctrl-C reaches the command that runs under the lock. holdfast ends when the command does, with its exit code.
func TestExec_CtrlCReachesTheCommand(t *testing.T) {
	t.Parallel()
	server, x := redistest.Shared(t), open(t, 80, 24)
	name, file := redistest.Name(t), filepath.Join(t.TempDir(), "trapped")
	x.run(server.URL(), binary, "exec", name, "--", "sh", "-c", `trap 'touch "$0"; exit 7' INT; echo runs; while :; do sleep 0.05; done`, file)
	x.shows("runs")
	x.types(ctrlC)
	assert.Equal(t, 7, x.code())
	_, err := os.Stat(file)
	assert.NoError(t, err)
	assert.Zero(t, server.Client(t).Exists(t.Context(), name).Val())
}

// The command can read from the terminal, although it is in its own process group.
func TestExec_CommandReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	server, x := redistest.Shared(t), open(t, 80, 24)
	x.run(server.URL(), binary, "exec", redistest.Name(t), "--", "sh", "-c", `echo name?; read name; echo "hello $name"`)
	x.shows("name?")
	x.types("Ada\r")
	x.shows("hello Ada")
	assert.Equal(t, 0, x.code())
}

// shell runs an interactive shell in the terminal.
func (x *terminal) shell(url string) {
	x.t.Helper()
	x.run(url, "env", "PS1=ready> ", "bash", "--norc", "--noprofile", "-i")
	x.shows("ready>")
}

// Another program of a pipeline may use the terminal while the command runs, as a pager does.
func TestExec_LeavesTheTerminalToItsPipeline(t *testing.T) {
	t.Parallel()
	server, x := redistest.Shared(t), open(t, 100, 24)
	x.shell(server.URL())
	x.types(binary + " exec " + redistest.Name(t) + ` -- sh -c 'echo line; exec sleep 1000' | sh -c 'read line; echo na""me?; read word </dev/tty; echo "go""t $line $word"'` + "\r")
	x.shows("name?")
	x.types("Ada\r")
	x.shows("got line Ada")
	x.types(ctrlC)
	x.types("exit 7\r")
	assert.Equal(t, 7, x.code())
}

// A command whose standard input is a pipe still gets the terminal once it reads from the terminal.
func TestExec_CommandInAPipelineReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	server, x := redistest.Shared(t), open(t, 100, 24)
	x.shell(server.URL())
	x.types("echo piped | " + binary + " exec " + redistest.Name(t) + ` -- sh -c 'cat; echo na""me?; read name </dev/tty; echo "hel""lo $name"'` + "\r")
	x.shows("name?")
	x.types("Ada\r")
	x.shows("hello Ada")
	x.types("exit 7\r")
	assert.Equal(t, 7, x.code())
}

// If a command in the background needs the terminal, it gets the terminal after fg. Before that, kill can end it.
func TestExec_InTheBackground(t *testing.T) {
	t.Parallel()
	server, x := redistest.Shared(t), open(t, 100, 24)
	x.shell(server.URL())
	begin := func() {
		x.types("clear; " + binary + " exec " + redistest.Name(t) + ` -- sh -c 'echo na""me?; read name; echo "hel""lo $name"' &` + "\r")
		x.shows("name?")
	}
	begin()
	x.types("clear; kill %1; wait\r")
	x.shows("Exit 143")
	begin()
	x.types("clear; fg\r")
	x.shows("sh -c")
	x.types("Ada\r")
	x.shows("hello Ada")
	x.types("exit 7\r")
	assert.Equal(t, 7, x.code())
}

// Ctrl-Z stops the command and holdfast; fg continues both, under the same lock.
func TestExec_Suspends(t *testing.T) {
	t.Parallel()
	server, x := redistest.Shared(t), open(t, 100, 24)
	name := redistest.Name(t)
	x.shell(server.URL())
	x.types(binary + " exec " + name + ` -- sh -c 'echo ru""ns; read word; echo "go""t $word"'` + "\r")
	x.shows("runs")
	x.types(ctrlZ)
	x.shows("Stopped", "ready>")
	x.types("fg\r")
	locktest.Await(t, "the shell to name the job that continues", func() bool { return strings.Count(x.String(), "sh -c") == 3 })
	x.types("on\r")
	x.shows("got on")
	x.types("exit\r")
	assert.Equal(t, 0, x.code())
	assert.Zero(t, server.Client(t).Exists(t.Context(), name).Val())
}

// During a term, lead catches the signal of Ctrl-Z. Between two terms, Ctrl-Z must still stop lead.
func TestLead_SuspendsBetweenTerms(t *testing.T) {
	t.Parallel()
	server, x := redistest.Shared(t), open(t, 200, 24)
	client, name := server.Client(t), redistest.Name(t)
	x.shell(server.URL())
	x.types(binary + " lead --lease 1h " + name + " -- true\r") // after its term it waits for a quarter of the lease
	x.shows("leading " + name)
	locktest.Await(t, "the end of the term", func() bool { return client.Exists(t.Context(), name).Val() == 0 })
	x.types(ctrlZ)
	x.shows("Stopped", "ready>")
	x.types("fg\r")
	locktest.Await(t, "the shell to name the job that continues", func() bool { return strings.Count(x.String(), "-- true") == 3 })
	x.types(ctrlC + `echo "co""de $?"` + "\r")
	x.shows("code 130")
	x.types("exit\r")
	assert.Equal(t, 0, x.code())
}

// A terminal may be set to stop programs that write from the background. Such a terminal must not stop holdfast: a stopped holdfast does not renew
// the lease.
func TestExec_WritesFromTheBackground(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux")
	}
	server, x := redistest.Shared(t), open(t, 200, 24)
	name := redistest.Name(t)
	x.shell(server.URL())
	x.types("stty tostop\r")
	x.types(binary + " exec --lease 3s " + name + ` -- sh -c 'echo ru""ns; sleep 1000'; echo "co""de $?"` + "\r")
	x.shows("runs")
	require.NoError(t, server.Client(t).Del(t.Context(), name).Err())
	x.shows("stopping the command", "code 76")
	x.types("exit\r")
	assert.Equal(t, 0, x.code())
}
