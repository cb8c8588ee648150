//go:build unix

package terminaltest

import (
	"context"
	"fmt"
	"log/slog"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	up, down, enter, escape = "\x1b[A", "\x1b[B", "\r", "\x1b"
	ctrlC, ctrlZ            = "\x03", "\x1a"
)

// service starts a runtime whose process has this name. It returns the runtime when the name is in Redis, where other programs see it.
func service(t *testing.T, client redis.UniversalClient, name string) *holdfast.Runtime {
	t.Helper()
	rt, err := holdfast.New(client, holdfast.Options{Process: name, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close(context.Background())) })
	locktest.Await(t, "the process's name in Redis", func() bool {
		processes, err := inspect.Processes(t.Context(), client)
		return err == nil && slices.ContainsFunc(processes, func(p inspect.Process) bool { return p.Runtime == rt.ID() })
	})
	return rt
}

// acquirer is any kind of lock.
type acquirer interface {
	Acquire(ctx context.Context, o ...holdfast.AcquireOption) (*holdfast.Lease, error)
}

// waiter is any kind of lock that can be acquired asynchronously, without a goroutine.
type waiter interface {
	AcquireAsync(ctx context.Context, o ...holdfast.AcquireOption) *holdfast.Pending
}

func hold(t *testing.T, l acquirer) *holdfast.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = lease.Release(context.Background()) }) // until the test ends, this function keeps the lease reachable
	return lease
}

// contended returns a server with three held locks. One of them, orders, has a waiter.
func contended(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Start(t)
	shop, jobs := service(t, server.Client(t), "shop@web-1:4711"), service(t, server.Client(t), "jobs@worker-7:99")
	hold(t, shop.Lock("orders"))
	hold(t, shop.FairLock("stock"))
	hold(t, jobs.FencedLock("billing"))
	waiting := jobs.Lock("orders").AcquireAsync(t.Context())
	t.Cleanup(func() { waiting.Cancel() })
	locktest.Await(t, "the waiter", func() bool {
		e, err := inspect.Look(t.Context(), server.Client(t), "orders")
		return assert.NoError(t, err) && e.Waiting == 1
	})
	return server
}

// row returns the line of the screen that contains text.
func (x *terminal) row(text string) string {
	for line := range strings.Lines(x.String()) {
		if strings.Contains(line, text) {
			return strings.TrimRight(line, " \n")
		}
	}
	return ""
}

func TestTop_Keys(t *testing.T) {
	t.Parallel()
	server, x := contended(t), open(t, 100, 20)
	before := x.settings()
	x.run(server.URL(), binary, "top")
	x.shows("holdfast top", "3 locks, 1 contended, 1 waiting", "shop@web-1:4711", "jobs@worker-7:99", "> orders")
	assert.True(t, x.IsAltScreen())
	assert.Regexp(t, `^> orders +lock +\S+ +shop@web-1:4711 +\d+s +1$`, x.row("> orders"))

	x.types(down)
	x.shows("> billing")
	x.types("j")
	x.shows("> stock")
	x.types(up + up + up)
	x.shows("> orders")
	x.types("G")
	x.shows("> stock")

	x.types("ss")
	x.shows("s sort: name")
	lines := x.String()
	assert.Less(t, strings.Index(lines, "  billing"), strings.Index(lines, "  orders"))

	x.types("/ORD")
	x.hides("billing")
	x.shows("/ORD▏", "> orders")
	x.types(enter)
	x.shows("filter ORD: 1 locks")
	x.types(enter)
	x.shows("held by   shop@web-1:4711", "waiting   1")
	x.types(escape)
	x.shows("> orders")
	x.types(escape)
	x.shows("billing")

	x.types("?")
	x.shows("select a lock")
	x.types(" ")
	x.hides("select a lock")
	x.types("p")
	x.shows("paused", "p resume")
	hold(t, service(t, server.Client(t), "late").Lock("late"))
	x.types("p")
	x.shows("late", "4 locks")
	x.types("q")
	assert.Equal(t, 0, x.code())
	x.isAsBefore(before)
}

// The page of a lock scrolls if it is longer than the screen.
func TestTop_LongPageOfALock(t *testing.T) {
	t.Parallel()
	server, x := redistest.Start(t), open(t, 100, 10)
	client := server.Client(t)
	require.NoError(t, client.HSet(t.Context(), "orders", "mode", "read").Err())
	for i := range 30 {
		require.NoError(t, client.HSet(t.Context(), "orders", fmt.Sprintf("01234567-89ab-4cde-8f01-23456789ab%02d:1", i), 1).Err())
	}
	x.run(server.URL(), binary, "top")
	x.shows("> orders")
	x.types(enter)
	x.shows("held by   01234567-89ab-4cde-8f01-23456789ab00:1", "↑↓ scroll")
	x.types("G")
	x.shows("waiting   0")
	x.hides("name ")
	x.types(up)
	x.hides("waiting   0")
	x.types(down + "j")
	x.shows("waiting   0")
	x.types("g")
	x.shows("name      orders", "mode      read")
}

// While the page of a lock is open, top looks at it again and again, and notices a renewal.
func TestTop_SeesARenewal(t *testing.T) {
	t.Parallel()
	server, x := redistest.Start(t), open(t, 80, 24)
	rt, err := holdfast.New(server.Client(t), holdfast.Options{Lease: 3 * 1e9, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close(context.Background())) })
	hold(t, rt.Lock("orders"))
	x.run(server.URL(), binary, "top")
	x.shows("> orders")
	x.types(enter)
	x.shows("renewed   yes, ")
}

func TestTop_FreesAfterAsking(t *testing.T) {
	t.Parallel()
	server, x := contended(t), open(t, 100, 20)
	x.run(server.URL(), binary, "top")
	x.shows("> orders")
	x.types("f")
	x.shows("Free orders by force?")
	x.types("n")
	x.shows("left as it is")
	x.shows("shop@web-1:4711")
	x.types("fy")
	x.shows("freed orders")
	locktest.Await(t, "the waiter to hold the lock", func() bool {
		return strings.Contains(x.row("orders  "), "jobs@worker-7:99") // the waiter
	})
}

// The user's answer applies to the lock and the holder that the question named, even if the list has changed meanwhile.
func TestTop_FreesOnlyWhatWasAsked(t *testing.T) {
	t.Parallel()
	server, x := redistest.Start(t), open(t, 100, 20)
	client := server.Client(t)
	a, b := service(t, client, "a"), service(t, client, "b")
	first := hold(t, a.Lock("first"))
	hold(t, b.Lock("second"))
	x.run(server.URL(), binary, "top")
	x.shows("> first", "  second")
	x.types("f")
	x.shows("Free first by force?")
	require.NoError(t, first.Release(t.Context()))
	x.shows("1 locks")
	assert.Contains(t, x.String(), "Free first by force?")
	x.types("y")
	x.shows("first was not held")

	first = hold(t, a.Lock("first"))
	x.shows("2 locks")
	x.types(up + up + "f")
	x.shows("Free first by force?")
	require.NoError(t, first.Release(t.Context()))
	later := hold(t, b.Lock("first"))
	x.types("y")
	x.shows("first has another holder by now")
	assert.Equal(t, []string{later.ID()}, holdersOf(t, client, "first"))
	assert.Len(t, holdersOf(t, client, "second"), 1)
}

func holdersOf(t *testing.T, client redis.UniversalClient, name string) (ids []string) {
	t.Helper()
	e, err := inspect.Look(t.Context(), client, name)
	require.NoError(t, err)
	for _, h := range e.Holders {
		ids = append(ids, h.ID)
	}
	return ids
}

func TestTop_EndsBySignal(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for sent, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGINT: 130} {
		t.Run(sent.String(), func(t *testing.T) {
			t.Parallel()
			if sent == syscall.SIGHUP && signal.Ignored(sent) {
				t.Skip("the tests run under nohup, which the program respects")
			}
			x := open(t, 80, 24)
			before := x.settings()
			x.run(server.URL(), binary, "top")
			x.shows("q quit")
			if sent == syscall.SIGINT {
				x.types(ctrlC)
			} else {
				require.NoError(t, x.cmd.Process.Signal(sent))
			}
			assert.Equal(t, want, x.code())
			x.isAsBefore(before)
		})
	}
}

// Ctrl-Z returns the terminal to the shell with its old settings. fg continues top.
func TestTop_Suspends(t *testing.T) {
	t.Parallel()
	server, x := contended(t), open(t, 100, 20)
	x.run(server.URL(), "env", "PS1=ready> ", "bash", "--norc", "--noprofile", "-i")
	x.shows("ready>")
	x.types(binary + " top\r")
	x.shows("> orders")
	x.types(ctrlZ)
	x.shows("Stopped", "ready>")
	assert.False(t, x.IsAltScreen())
	x.types("fg\r")
	x.shows("> orders")
	assert.True(t, x.IsAltScreen())
	x.types("q")
	locktest.Await(t, "the shell's third prompt: until top has ended, it reads what is typed", func() bool { return strings.Count(x.String(), "ready>") == 3 })
	x.types("exit\r")
	assert.Equal(t, 0, x.code())
}

// If no shell could continue top, as after "ssh -t host holdfast top", Ctrl-Z does not stop it.
func TestTop_IsNotSuspendedWithoutAShell(t *testing.T) {
	t.Parallel()
	server, x := contended(t), open(t, 100, 20)
	before := x.settings()
	x.run(server.URL(), binary, "top")
	x.shows("> orders")
	for range 3 {
		x.types(ctrlZ + "?")
		x.shows("any key: back")
		x.types(" ")
		x.shows("> orders")
	}
	x.types("q")
	assert.Equal(t, 0, x.code())
	x.isAsBefore(before)
}

func TestTop_RedisGoesAndComesBack(t *testing.T) {
	t.Parallel()
	server, x := contended(t), open(t, 100, 20)
	x.run(server.URL(), binary, "top")
	x.shows("> orders")
	server.Pause()
	x.shows("no answer for ", "orders")
	server.Resume()
	x.hides("no answer for ")
	x.shows("> orders")
}

// Each lock has one line with its name, no matter how narrow and low the terminal is.
func TestTop_FitsTheTerminal(t *testing.T) {
	t.Parallel()
	server, x := contended(t), open(t, 100, 20)
	name := strings.Repeat("a-long-name-", 20)
	hold(t, service(t, server.Client(t), strings.Repeat("host", 30)).Lock(name))
	x.run(server.URL(), binary, "top")
	x.shows("4 locks")
	for _, size := range []pty.Winsize{{Cols: 60, Rows: 20}, {Cols: 30, Rows: 10}, {Cols: 12, Rows: 10}, {Cols: 100, Rows: 5}, {Cols: 200, Rows: 50}} {
		x.Resize(int(size.Cols), int(size.Rows))
		require.NoError(t, pty.Setsize(x.file, &size))
		locktest.Await(t, fmt.Sprintf("%d columns, %d rows", size.Cols, size.Rows), func() bool {
			lines := strings.Split(x.String(), "\n")
			last := lines[len(lines)-1]
			return len(lines) == int(size.Rows) && strings.HasPrefix(last, "q quit"[:min(6, size.Cols)]) && strings.Contains(x.String(), "> orders"[:min(8, size.Cols)])
		})
		if size.Rows >= 10 {
			long := 0
			for _, line := range splitLines(x.String()) {
				if strings.Contains(line, "a-lo") {
					long++
				}
			}
			assert.Equal(t, 1, long, "%s", x)
			assert.Contains(t, x.String(), "stock")
		}
	}
}

// Text that others have written never moves the cursor, changes colours, or leaves its column.
func TestTop_ShowsHostileNames(t *testing.T) {
	t.Parallel()
	server, x := redistest.Start(t), open(t, 100, 20)
	const stranger = "01234567-89ab-4cde-8f01-23456789abcd"
	rt := service(t, server.Client(t), "x")
	for _, name := range []string{"a\x1b[2Jb", "line\r\nfeed", "\u202eright", "wide世界", strings.Repeat("z", 512)} {
		if escaped := holdfast.EscapeName(name); escaped == name {
			hold(t, rt.Lock(name))
			continue
		}
		require.NoError(t, server.Client(t).HSet(t.Context(), name, stranger+":1", "1").Err())
	}
	require.NoError(t, server.Client(t).HSet(t.Context(), "bytes\xff\xfe", stranger+":1", "1").Err())
	x.run(server.URL(), binary, "top")
	x.shows("q quit", `"a\x1b[2Jb"`, `"line\r\nfeed"`, `"\u202eright"`, "wide世界", `"bytes\xff\xfe"`, "zzz…")
	x.types("G" + enter)
	x.shows("name")
}
