package childproc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// dieWithParent asks the kernel to kill the child when the thread that starts it ends.
func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// awaitStopped polls until every thread is stopped: kill(2) returns before the signal takes effect.
func (p *Process) awaitStopped(deadline time.Time) error {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !stopped(p.PID()) {
		select {
		case <-p.done:
			return fmt.Errorf("childproc: process %d ended before it stopped", p.PID())
		case now := <-poll.C:
			if now.After(deadline) {
				return fmt.Errorf("childproc: process %d did not stop in %v", p.PID(), stopWait)
			}
		}
	}
	return nil
}

// stopped reports whether all threads of a process are in state T. The state is the first field after the
// command name, which is in parentheses and may itself contain parentheses.
func stopped(pid int) bool {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // this thread has just ended
		}
		state := bytes.TrimLeft(stat[bytes.LastIndexByte(stat, ')')+1:], " ")
		if len(state) == 0 || state[0] != 'T' {
			return false
		}
	}
	return len(threads) > 0
}
