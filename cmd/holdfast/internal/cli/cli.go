// Package cli is the command line of holdfast: its commands with their flags and texts, and the exit codes.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// Exit codes of holdfast itself. If a command runs under a lock, holdfast normally ends with the exit code of that command.
const (
	exitOK          = 0
	exitNo          = 1  // check has findings; free has freed nothing; the output could not be written
	exitUsage       = 64 // EX_USAGE
	exitRedis       = 69 // EX_UNAVAILABLE
	exitSystem      = 71 // EX_OSERR
	exitNotAcquired = 75 // EX_TEMPFAIL
	exitLost        = 76 // the lease was lost before the command ended
)

// redisVariable is the environment variable with the default for --redis.
const redisVariable = "HOLDFAST_REDIS"

// app is one invocation of holdfast.
type app struct {
	stdin          *os.File
	stdout, stderr *os.File
	redisURL       string
	unnamed        bool // redisVariable is empty or not set
	json           bool
	quiet          bool
	warning        atomic.Pointer[string] // why the URL is probably wrong
	behind         io.Writer              // takes the messages instead of stderr, or nil
}

// Main runs the command that the arguments name, and returns the exit code.
func Main(args []string, stdin, stdout, stderr *os.File) int {
	redis.SetLogger(silent{}) // go-redis would log each failed dial in addition to the error that it returns
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, redisURL: os.Getenv(redisVariable)}
	if a.redisURL == "" {
		a.redisURL, a.unnamed = connect.Default, true
	}
	global := newFlags("holdfast")
	a.globals(global)
	switch err := global.parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return a.overview(a.stdout, exitOK)
	case err != nil:
		return a.usage("", err)
	}
	if global.set.NArg() == 0 {
		return a.overview(a.stderr, exitUsage)
	}
	name, rest := global.set.Arg(0), global.set.Args()[1:]
	for _, c := range commands() {
		if c.name == name {
			return a.run(c, rest)
		}
	}
	return a.usage("", fmt.Errorf("unknown command %s", text.Show(name)))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// command is one command of the command line.
type command struct {
	name     string
	args     string // arguments, as the usage line shows them
	does     string // description in one line
	about    string // paragraphs of the help
	examples string
	exits    string
	runs     bool           // the command runs a program, which follows --
	flags    func(f *flags) // nil if the command has only the global flags
	run      func(*app, input) int
}

// input is the arguments after a command's name, without the flags.
type input struct {
	args    []string
	program []string // the arguments after --
}

func (a *app) globals(f *flags) {
	f.text(&a.redisURL, "r redis", "URL", "the server: see \"holdfast help\"; default $"+redisVariable+", else "+connect.Default)
	f.flag(&a.json, "json", "write JSON, one object per line, to standard output and as messages; doc/command.md describes the fields")
}

// run reads the flags of a command, and runs the command. Flags may be anywhere before --.
func (a *app) run(c *command, args []string) int {
	f := newFlags(c.name)
	if c.flags != nil {
		c.flags(f)
	}
	a.globals(f)
	var in input
	if c.runs {
		for i, arg := range args {
			if arg == "--" {
				args, in.program = args[:i], args[i+1:]
				break
			}
		}
	}
	for {
		switch err := f.parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return a.help(c)
		case err != nil:
			return a.usage(c.name, err)
		}
		left := f.set.Args()
		if len(left) == 0 {
			break
		}
		if n := len(args) - len(left); n > 0 && args[n-1] == "--" {
			in.args = append(in.args, left...)
			break
		}
		in.args, args = append(in.args, left[0]), left[1:]
	}
	return c.run(a, in)
}

// say writes a message for the user to standard error, unless the command is quiet.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		a.complain(fmt.Sprintf(format, args...))
	}
}

// complain writes an error to standard error.
func (a *app) complain(line string) { _ = a.tell(line) }

// tell writes a message to standard error.
func (a *app) tell(line string) error {
	message := []byte("holdfast: " + line + "\n")
	if a.json {
		var err error
		if message, err = text.JSON(messageJSON{line}); err != nil {
			return err
		}
	}
	to := a.behind
	if to == nil {
		to = a.stderr
	}
	_, err := to.Write(message)
	return err
}

type messageJSON struct {
	Message string `json:"message"`
}

// writeBehind makes another goroutine write all messages from now on, so that nothing else waits for a reader. The function `flush`, which
// writeBehind returns, waits until all messages are written, but not longer than endWait.
func (a *app) writeBehind() (flush func()) {
	b := newBehind()
	a.behind = b.to(a.stderr)
	return b.flush
}

// usage reports a wrong invocation.
func (a *app) usage(command string, err error) int {
	if command != "" {
		command = " " + command
	}
	fmt.Fprintf(a.stderr, "holdfast%s: %s\nTry \"holdfast%s --help\".\n", command, text.Message(err.Error()), command)
	return exitUsage
}

// failed reports an error of Redis or of the library, and returns the matching exit code.
func (a *app) failed(err error) int {
	if errors.Is(err, context.Canceled) {
		return exitRedis // a signal has cancelled the call: no message is needed, and withClient returns the exit code for the signal
	}
	a.complain(text.Message(strings.TrimPrefix(err.Error(), "holdfast: ")) + a.hint(err))
	switch {
	case errors.Is(err, holdfast.ErrInvalid):
		return exitUsage
	case taken(err):
		return exitNotAcquired
	}
	return exitRedis
}

// hint returns the probable cause of an error, in parentheses, or "" if the cause is not known.
func (a *app) hint(err error) string {
	network, _ := errors.AsType[*net.OpError](err)
	reply, _ := errors.AsType[redis.Error](err)
	switch {
	case network != nil && network.Op == "dial" && a.unnamed && a.redisURL == connect.Default:
		return " (" + redisVariable + " is not set; this is the default server)"
	case reply != nil && strings.HasPrefix(reply.Error(), "MOVED "):
		return " (for a cluster, the URL needs ?cluster=true)"
	case errors.Is(err, io.EOF) && strings.HasPrefix(a.redisURL, "redis://"):
		return " (a server with TLS needs rediss://)"
	case errors.Is(err, os.ErrDeadlineExceeded) && (network == nil || network.Op != "dial"):
		return " (Redis accepts connections, but does not answer)"
	}
	return ""
}

func (a *app) write(text string) int {
	if _, err := io.WriteString(a.stdout, text); err != nil {
		return a.unwritten(err)
	}
	return exitOK
}

// unwritten reports that the output could not be written completely.
func (a *app) unwritten(err error) int {
	a.complain(err.Error())
	return exitNo
}

// printJSON writes v as one line of JSON, and returns the exit code. If the line cannot be written, it reports the error.
func printJSON(to io.Writer, a *app, v any) int {
	line, err := text.JSON(v)
	if err == nil {
		_, err = to.Write(line)
	}
	if err != nil {
		return a.unwritten(err)
	}
	return exitOK
}

// withClient calls `do` with a client, and with a context that ends when a signal asks holdfast to end.
func (a *app) withClient(command string, do func(ctx context.Context, client redis.UniversalClient) int) int {
	client, code := a.client(command)
	if client == nil {
		return code
	}
	defer func() { _ = client.Close() }()
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // nohup starts commands with SIGHUP ignored
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	go func() {
		select {
		case s := <-signals:
			stop(ended{s})
		case <-ctx.Done():
		}
	}()
	code = do(ctx, client)
	if by := (ended{}); errors.As(context.Cause(ctx), &by) {
		return by.code()
	}
	return code
}

// ended says which signal ended a command.
type ended struct{ signal os.Signal }

func (e ended) Error() string { return e.signal.String() }

func (e ended) code() int {
	if number, ok := e.signal.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return exitNo
}

// client opens a client of Redis. If it returns nil, it has reported the error, and holdfast must end with the returned exit code.
func (a *app) client(command string) (redis.UniversalClient, int) {
	client, err := connect.Open(a.redisURL, func(text string) {
		if a.warning.CompareAndSwap(nil, &text) {
			a.say("%s", text)
		}
	})
	if err != nil {
		return nil, a.usage(command, err)
	}
	return client, exitOK
}

// newRuntime starts a runtime that logs to standard error, unless the command is quiet.
func (a *app) newRuntime(client redis.UniversalClient, o holdfast.Options) (*holdfast.Runtime, error) {
	o.Logger = slog.New(newLogHandler(a.tell))
	if a.quiet {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return holdfast.New(client, o)
}
