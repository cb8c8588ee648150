package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/childproc"
)

const (
	host       = "127.0.0.1"
	startWait  = 20 * time.Second     // for a started server to answer
	portTries  = 10                   // ports tried until one is really free
	portWait   = 10 * time.Second     // for a restarted server to get its port back
	pollPeriod = 2 * time.Millisecond // between two checks of a starting server
)

// errPortTaken reports that another process listens on the server's port.
var errPortTaken = errors.New("port is taken")

// instance is one redis-server: a directory, a port, and a process that can be replaced.
type instance struct {
	binary string
	dir    string
	args   []string
	env    []string // added to this process's
	tls    bool     // whether the port serves TLS

	mu   sync.Mutex
	port int
	proc *childproc.Process
}

func newInstance(args []string) (*instance, error) {
	binary, err := findBinary()
	if err != nil {
		return nil, err
	}
	// The directory is not in the test's temporary directory, because that path may be too long for a unix socket.
	dir, err := os.MkdirTemp("", "holdfast-redis-")
	if err != nil {
		return nil, err
	}
	in := &instance{binary: binary, dir: dir, args: args}
	// Without a file for its state, a sentinel does not start and CONFIG REWRITE fails.
	if err := os.WriteFile(in.configFile(), nil, 0o600); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return in, nil
}

// startOnFreePort starts the server on an unused port. Between the search for a port and the server's bind,
// another process can take the port; then another port is tried.
func (in *instance) startOnFreePort() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	for range portTries {
		port, err := reservePort()
		if err != nil {
			return err
		}
		in.port = port
		if err = in.launch(); !errors.Is(err, errPortTaken) {
			return err
		}
		in.port = 0
		freePort(port)
	}
	return fmt.Errorf("no free port found in %d tries", portTries)
}

// restart replaces the process with a new one on the same port.
func (in *instance) restart() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.proc.Kill()
	giveUp := time.Now().Add(portWait)
	for {
		err := in.launch()
		if !errors.Is(err, errPortTaken) || time.Now().After(giveUp) {
			return err
		}
	}
}

// launch starts the process and waits until it answers. The caller holds mu.
func (in *instance) launch() error {
	log, err := os.Create(in.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	// Diskless replication is off. If it were on, a master would send no writes to a new replica before the replica's first acknowledgement, which
	// takes up to a second. A failover would lose these writes. So a new replica gets a snapshot from disk. The master then deletes the snapshot, so
	// that a restarted server is empty.
	args := []string{
		in.configFile(), "--port", strconv.Itoa(in.port), "--bind", host, "--unixsocket", in.socket(),
		"--save", "", "--appendonly", "no", "--daemonize", "no",
		"--dir", in.dir, "--repl-diskless-sync", "no", "--rdb-del-sync-files", "yes",
	}
	if in.tls {
		args = append(args, "--port", "0", "--tls-port", strconv.Itoa(in.port))
	}
	cmd := exec.Command(in.binary, append(args, in.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), in.env...)
	proc, err := childproc.Spawn(cmd)
	if err != nil {
		return err
	}
	in.proc = proc
	if err := in.awaitAnswer(proc); err != nil {
		proc.Kill()
		return err
	}
	return nil
}

// awaitAnswer pings the server by its unix socket until it answers. The socket is in the server's own
// directory and is opened after the port. So no other server can answer, and the answer shows that the port
// is ours.
func (in *instance) awaitAnswer(proc *childproc.Process) error {
	poll := time.NewTicker(pollPeriod)
	defer poll.Stop()
	giveUp := time.Now().Add(startWait)
	for {
		if in.answers() {
			return nil
		}
		select {
		case <-proc.Done():
			if strings.Contains(in.log(), "Address already in use") {
				return fmt.Errorf("%w: %d", errPortTaken, in.port)
			}
			if in.tls && strings.Contains(in.log(), "Bad directive") {
				return fmt.Errorf("%s is built without TLS; Debian's and Homebrew's are built with it\n%s", in.binary, in.log())
			}
			return fmt.Errorf("redis-server ended before it was ready: %w\n%s", proc.Err(), in.log())
		case now := <-poll.C:
			if now.After(giveUp) {
				return fmt.Errorf("redis-server does not answer after %v\n%s", startWait, in.log())
			}
		}
	}
}

// answers reports whether the server is up. A server that asks for a password or denies the command is up too.
func (in *instance) answers() bool {
	_, err := in.command("PING")
	var refusal serverError
	return err == nil || errors.As(err, &refusal) && !strings.HasPrefix(string(refusal), "LOADING")
}

// close ends the process and removes all its files.
func (in *instance) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc != nil {
		in.proc.Kill()
	}
	if in.port != 0 {
		freePort(in.port)
	}
	_ = os.RemoveAll(in.dir)
}

func (in *instance) process() *childproc.Process {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.proc
}

func (in *instance) addr() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return net.JoinHostPort(host, strconv.Itoa(in.port))
}

func (in *instance) log() string {
	text, err := os.ReadFile(in.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (in *instance) logFile() string { return filepath.Join(in.dir, "log") }

func (in *instance) configFile() string { return filepath.Join(in.dir, "redis.conf") }

func (in *instance) socket() string { return filepath.Join(in.dir, "sock") }
