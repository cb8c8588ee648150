package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// jar is the built program of redisson/.
const jar = "redisson/target/driver.jar"

// driver is the Java program that carries out requests with the real Redisson. Its methods are safe for concurrent use.
type driver struct {
	process *childproc.Process
	in      *os.File
	log     string        // file with the program's standard error
	ended   chan struct{} // closed at the end of the program's output

	mu      sync.Mutex
	last    int
	pending map[string]chan answer
}

type answer struct {
	value string
	err   error
}

// errDriver is the error of a request for which Redisson has thrown an exception.
var errDriver = errors.New("redisson")

var errEnded = errors.New("the driver has ended")

// shared is the driver that all tests share, because a JVM starts slowly.
var shared struct {
	once sync.Once
	*driver
	err error
}

// redisson returns the driver, and starts it if necessary. If the driver is not built, the test is skipped. With HOLDFAST_INTEROP=1,
// which interop/run sets, the test fails instead. .ci/run does not set it when it runs all tests, but calls interop/run in a later step.
func redisson(t *testing.T) *driver {
	t.Helper()
	if why := missing(); why != "" {
		if os.Getenv("HOLDFAST_INTEROP") == "1" {
			t.Fatalf("HOLDFAST_INTEROP=1, but %s", why)
		}
		t.Skipf("%s; see interop/README.md", why)
	}
	shared.once.Do(func() {
		if shared.driver, shared.err = startDriver(); shared.err == nil {
			redistest.AtEnd(shared.stop)
		}
	})
	if shared.err != nil {
		t.Fatalf("start the driver: %v", shared.err)
	}
	from := len(shared.stderr())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the driver's standard error meanwhile, of all tests:\n%s", shared.stderr()[from:])
		}
	})
	return shared.driver
}

// missing says why the driver cannot be started, or "" if it can.
func missing() string {
	if _, err := os.Stat(jar); err != nil {
		return "the Java driver is not built: make interop"
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "there is no java in PATH"
	}
	return ""
}

func startDriver() (*driver, error) {
	dir, err := os.MkdirTemp("", "holdfast-interop-")
	if err != nil {
		return nil, err
	}
	d := &driver{log: filepath.Join(dir, "stderr"), ended: make(chan struct{}), pending: map[string]chan answer{}}
	redistest.AtEnd(func() { _ = os.RemoveAll(dir) })
	log, err := os.Create(d.log)
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
		return nil, err
	}
	defer stdout.Close()
	cmd := exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true", "-jar", jar)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, log
	d.in = in
	ready := d.expect("0")
	if d.process, err = childproc.Spawn(cmd); err != nil {
		return nil, err
	}
	go d.read(out)
	if got := <-ready; got.err != nil {
		return nil, fmt.Errorf("%w\n%s", got.err, d.stderr())
	}
	return d, nil
}

func (d *driver) stderr() string {
	text, _ := os.ReadFile(d.log)
	return string(text)
}

// stop ends the program by closing its input, and kills it if that has no effect.
func (d *driver) stop() {
	_ = d.in.Close()
	select {
	case <-d.process.Done():
	case <-time.After(locktest.Patience):
		d.process.Kill()
	}
	<-d.ended
}

// read delivers the answers until the program's output ends. Requests without an answer then get errEnded.
func (d *driver) read(out *os.File) {
	defer close(d.ended)
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		id, rest, _ := strings.Cut(lines.Text(), " ")
		outcome, value, _ := strings.Cut(rest, " ")
		got := answer{value: value}
		if outcome != "ok" {
			got = answer{err: fmt.Errorf("%w: %s", errDriver, value)}
		}
		d.settle(id, got)
	}
	d.mu.Lock()
	all := d.pending
	d.pending = nil
	d.mu.Unlock()
	for _, waiting := range all {
		waiting <- answer{err: errEnded}
	}
}

func (d *driver) settle(id string, got answer) {
	d.mu.Lock()
	waiting := d.pending[id]
	delete(d.pending, id)
	d.mu.Unlock()
	if waiting != nil {
		waiting <- got
	}
}

func (d *driver) expect(id string) <-chan answer {
	waiting := make(chan answer, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending == nil {
		waiting <- answer{err: errEnded}
		return waiting
	}
	d.pending[id] = waiting
	return waiting
}

// ask sends a request to the driver and returns the answer. arguments are "key=value". If ctx ends first, the driver still carries the
// request out, but its answer is dropped.
func (d *driver) ask(ctx context.Context, verb string, arguments ...string) (string, error) {
	d.mu.Lock()
	d.last++
	id := strconv.Itoa(d.last)
	d.mu.Unlock()
	waiting := d.expect(id)
	if _, err := fmt.Fprintln(d.in, strings.Join(append([]string{id, verb}, arguments...), " ")); err != nil {
		return "", err
	}
	select {
	case got := <-waiting:
		if got.err != nil {
			return "", fmt.Errorf("%s %v: %w", verb, arguments, got.err)
		}
		return got.value, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%s %v: %w", verb, arguments, ctx.Err())
	}
}
