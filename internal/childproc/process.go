package childproc

import (
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

// stopWait bounds the wait until a process has really stopped.
const stopWait = 5 * time.Second

// Process is a started child process. On Linux it dies with the process that started it. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // the result of cmd.Wait; written before done is closed
}

// Spawn starts cmd. The streams of cmd must be files or nil: for any other stream, os/exec starts a
// goroutine that copies the data and may outlast the process.
func Spawn(cmd *exec.Cmd) (*Process, error) {
	dieWithParent(cmd)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("childproc: start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run keeps its thread until the child has ended, because Linux sends the child its death signal when the *thread* that
// started the child ends. A thread that is not kept may end early: the Go runtime ends a thread when a goroutine that
// is locked to it returns.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits for the end of the process and returns its exit error, nil for status 0.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Kill kills the process and waits for its end. Killing an ended process does nothing.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // the process may have ended by itself
	<-p.done
}

// Stop freezes the process (SIGSTOP). On Linux it returns when every thread is stopped, on other systems when the
// signal is sent.
func (p *Process) Stop() error {
	if err := p.suspend(); err != nil {
		return fmt.Errorf("childproc: stop process %d: %w", p.PID(), err)
	}
	return p.awaitStopped(time.Now().Add(stopWait))
}

// Cont continues a stopped process (SIGCONT).
func (p *Process) Cont() error {
	if err := p.resume(); err != nil {
		return fmt.Errorf("childproc: continue process %d: %w", p.PID(), err)
	}
	return nil
}
