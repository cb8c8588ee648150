package childproc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait of a Handle for its child.
const patience = 30 * time.Second

// Handle is the test's side of a child that Run has started. Only one goroutine at a time may read or send
// lines.
type Handle struct {
	*Process

	tb      testing.TB
	in      *os.File      // the child's standard input, our end
	out     *os.File      // the child's standard output, our end
	lines   *bufio.Reader // over out
	partial string        // the beginning of a line whose end has not arrived
	log     string        // the file that holds the child's standard error
}

// Run starts the entry registered as name in a child process, with env ("KEY=value") added to the
// environment. The child is killed when the test ends; what it wrote to standard error is shown if the
// test failed.
func Run(tb testing.TB, name string, env ...string) *Handle {
	tb.Helper()
	h, err := start(tb, name, env)
	if err != nil {
		tb.Fatalf("childproc: entry %q: %v", name, err)
	}
	tb.Cleanup(h.cleanup)
	return h
}

func start(tb testing.TB, name string, env []string) (*Handle, error) {
	log, err := os.Create(filepath.Join(tb.TempDir(), "stderr"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	defer stdout.Close()

	cmd := exec.Command(os.Args[0], fmt.Sprintf("-test.short=%t", testing.Short()))
	cmd.Env = append(append(os.Environ(), "GORACE="+raceOptions()), env...)
	cmd.Env = append(cmd.Env, entryVar+"="+name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, log
	h := &Handle{tb: tb, in: in, out: out, lines: bufio.NewReader(out), log: log.Name()}
	if h.Process, err = Spawn(cmd); err != nil {
		_, _ = in.Close(), out.Close()
		return nil, err
	}
	return h, nil
}

// raceOptions returns the race detector's options for a child, so that it exits almost at once. By default
// a child with the race detector sleeps for a second before it exits.
func raceOptions() string { return strings.TrimSpace(os.Getenv("GORACE") + " atexit_sleep_ms=10") }

func (h *Handle) cleanup() {
	h.Kill()
	_, _ = h.in.Close(), h.out.Close()
	if h.tb.Failed() {
		if text := h.Stderr(); text != "" {
			h.tb.Logf("standard error of child %d:\n%s", h.PID(), text)
		}
	}
}

// Send writes one line to the child's standard input.
func (h *Handle) Send(format string, args ...any) {
	h.tb.Helper()
	_ = h.in.SetWriteDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(h.in, format+"\n", args...); err != nil {
		h.tb.Fatalf("childproc: send to child %d: %v\n%s", h.PID(), err, h.Stderr())
	}
}

// CloseInput ends the child's standard input.
func (h *Handle) CloseInput() { _ = h.in.Close() }

// Line reads the next line of the child's standard output, without the line break. It fails the test if no
// line arrives in time or the output has ended.
func (h *Handle) Line() string {
	h.tb.Helper()
	line, err := h.ReadLine(patience)
	if err != nil {
		h.tb.Fatalf("childproc: read from child %d: %v\n%s", h.PID(), err, h.Stderr())
	}
	return line
}

// ReadLine reads a line as Line does, but with the given time limit, and returns an error instead of
// failing the test. The error is io.EOF if the output has ended, and matches os.ErrDeadlineExceeded if no
// whole line has arrived in time. After a timeout nothing is lost: the next call continues the line.
func (h *Handle) ReadLine(within time.Duration) (string, error) {
	_ = h.out.SetReadDeadline(time.Now().Add(within))
	text, err := h.lines.ReadString('\n')
	h.partial += text
	if err != nil && (err != io.EOF || h.partial == "") {
		return "", err
	}
	line := h.partial
	h.partial = ""
	if err == nil {
		line = line[:len(line)-1]
	}
	return line, nil
}

// Wait waits for the child to end and returns its exit error, nil for status 0. It fails the test if the
// child does not end in time.
func (h *Handle) Wait() error {
	h.tb.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-h.Done():
	case <-late.C:
		h.tb.Fatalf("childproc: child %d still runs after %v\n%s", h.PID(), patience, h.Stderr())
	}
	return h.Err()
}

// Stderr returns what the child has written to its standard error so far.
func (h *Handle) Stderr() string {
	text, err := os.ReadFile(h.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
