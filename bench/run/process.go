package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/bench/load"
)

// RoleVar is the environment variable that tells a child of this program its role: see Role.
const RoleVar = "HOLDFAST_BENCH_ROLE"

// endWait is how long a process may take to end after its input has ended.
const endWait = 10 * time.Second

// process is a measured process: a child of this program, or the JVM.
type process struct {
	name    string
	command *exec.Cmd
	input   io.WriteCloser
	orders  *json.Encoder
	reports chan load.Report
	errors  tail
}

// startLoad starts a child that runs the Go contenders.
func startLoad(name string) (*process, error) {
	command, err := child("load")
	if err != nil {
		return nil, err
	}
	return start(name, command)
}

// child returns a command that runs this program in another role.
func child(role string, env ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(program)
	command.Env = append(append(os.Environ(), RoleVar+"="+role), env...)
	return command, nil
}

func start(name string, command *exec.Cmd) (*process, error) {
	p := &process{name: name, command: command, reports: make(chan load.Report, 64)}
	command.Stderr = &p.errors
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p.input, p.orders = input, json.NewEncoder(input)
	go func() {
		defer close(p.reports)
		for decoder := json.NewDecoder(output); ; {
			var r load.Report
			if err := decoder.Decode(&r); err != nil {
				return
			}
			p.reports <- r
		}
	}()
	return p, nil
}

func (p *process) send(o load.Order) error {
	if err := p.orders.Encode(o); err != nil {
		return p.died()
	}
	return nil
}

func (p *process) died() error {
	return fmt.Errorf("the process of %s died: %s", p.name, p.errors.String())
}

// answer waits for a report of the given event, or of a failure, which it returns as an error. It skips other reports.
func (p *process) answer(event string, wait time.Duration) (load.Report, error) {
	timeout := time.After(wait)
	for {
		select {
		case r, open := <-p.reports:
			switch {
			case !open:
				return r, p.died()
			case r.Event == load.Failed:
				return r, errors.New(r.Error)
			case r.Event == event:
				return r, nil
			}
		case <-timeout:
			return load.Report{}, fmt.Errorf("%s did not answer %q within %v: %s", p.name, event, wait, p.errors.String())
		}
	}
}

// end closes the input, which ends the process. If that takes longer than endWait, it kills the process.
func (p *process) end() {
	_ = p.input.Close()
	go func() {
		for range p.reports { // discards its last reports
		}
	}()
	timer := time.AfterFunc(endWait, func() { _ = p.command.Process.Kill() })
	defer timer.Stop()
	_ = p.command.Wait()
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	p.end()
}

// tail keeps the end of the text that is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4096

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(len(t.text)-tailSize, 0):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := strings.TrimSpace(string(t.text)); text != "" {
		return text
	}
	return "it said nothing"
}
