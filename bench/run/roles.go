package run

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/holdfast-go/holdfast/bench/load"
)

// Role plays the role that the environment names, and returns true. In a process without a role it returns false at once. A child ends when its input
// is closed. When the harness ends for any reason, even by SIGKILL, the kernel closes the inputs of its children. So no child outlives the harness.
func Role() bool {
	role := os.Getenv(RoleVar)
	if role == "" {
		return false
	}
	signal.Ignore(os.Interrupt) // Ctrl-C reaches all processes, but a child ends only when the harness closes its input
	var err error
	switch role {
	case "load":
		err = load.Child(os.Stdin, os.Stdout)
	case "server":
		err = keepServer()
	default:
		err = fmt.Errorf("%s=%s is no role", RoleVar, role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// keepServer runs the server whose command is in its environment. When the input ends, it kills the server and removes the server's
// directory.
func keepServer() error {
	command := exec.Command("/bin/sh", "-c", "exec "+os.Getenv(serverVar))
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	defer func() { _ = os.RemoveAll(os.Getenv(dirVar)) }()
	if err := command.Start(); err != nil {
		return err
	}
	fmt.Printf("{\"event\":\"opened\",\"at\":%d}\n", command.Process.Pid)
	var failed error
	died := make(chan struct{})
	go func() {
		failed = command.Wait()
		close(died)
	}()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	select {
	case <-died:
		return fmt.Errorf("the server ended: %w", failed)
	case <-ended:
		_ = command.Process.Kill()
		<-died
		return nil
	}
}

// The environment variables of a child that keeps a server: the server's command line and directory.
const (
	serverVar = "HOLDFAST_BENCH_SERVER"
	dirVar    = "HOLDFAST_BENCH_DIR"
)

// server is a server that the harness started.
type server struct {
	*process
	addr string
	pid  int
}

// startServer starts a server on a free port. commandLine returns the server's command line for that port and for a new directory.
func startServer(name string, commandLine func(port int, dir string) string) (*server, error) {
	var last error
	for range 3 { // another program may take the port first
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		dir, err := os.MkdirTemp("", "holdfast-bench-")
		if err != nil {
			return nil, err
		}
		s, err := tryServer(name, commandLine(port, dir), fmt.Sprintf("127.0.0.1:%d", port), dir)
		if err == nil {
			return s, nil
		}
		last = err
		_ = os.RemoveAll(dir) // if there was a child, it has ended and has removed the directory itself
	}
	return nil, last
}

func tryServer(name, line, addr, dir string) (*server, error) {
	command, err := child("server", serverVar+"="+line, dirVar+"="+dir)
	if err != nil {
		return nil, err
	}
	p, err := start(name, command)
	if err != nil {
		return nil, err
	}
	s := &server{process: p, addr: addr}
	opened, err := p.answer(load.Opened, endWait)
	if err == nil {
		s.pid = int(opened.At)
		err = s.await()
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return s, nil
}

// await waits until the server listens.
func (s *server) await() error {
	for giveUp := time.Now().Add(20 * time.Second); time.Now().Before(giveUp); time.Sleep(20 * time.Millisecond) {
		select {
		case <-s.reports:
			return s.died()
		default:
		}
		if conn, err := net.DialTimeout("tcp", s.addr, time.Second); err == nil {
			_ = conn.Close()
			return nil
		}
	}
	return fmt.Errorf("%s does not listen: %s", s.name, s.errors.String())
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
