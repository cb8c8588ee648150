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

// Spawn starts cmd. The streams of cmd must be files or nil, so that no goroutine has to copy them, and
// none is left when the process has ended.
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

// run keeps its thread from start to end: Linux ties the child's death signal to the *thread* that started it. When that
// thread ends, the signal is sent. The Go runtime ends a thread if a goroutine returns while it is locked to the thread.
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

// Done is closed when the process has ended and was waited for.
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
