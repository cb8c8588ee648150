//go:build unix

// Package supervise runs a command while a lease lasts, and ends it before the lease does.
package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/kin"
)

const (
	lookMost   = 100 * time.Millisecond // the clock is checked at least this often, because timers stand still while the machine is suspended
	marginMost = 250 * time.Millisecond // upper limit of margin(), the time between the kill of the command and the local deadline
	lookSoon   = 5 * time.Millisecond   // time between two checks whether the processes of the run have ended
	killWait   = 10 * time.Second       // how long to wait for the end of a killed process, which the kernel may delay
)

// Lease is the lease under which a command runs, as in holdfast.Lease.
type Lease interface {
	Done() <-chan struct{}
	Err() error
	ExpiresAt() time.Time
}

// Command is a command that runs under a lease.
type Command struct {
	Path  string // path of the program
	Args  []string
	Env   []string
	Lease time.Duration // length of the lease just after a renewal
	Grace time.Duration // time between SIGTERM and SIGKILL
	// Signals are passed on to the command.
	Signals <-chan os.Signal
	// Tell shows a message to the user.
	Tell func(text string)
}

// Result says how a command has ended.
type Result struct {
	Code     int            // exit code, or 128 + the signal that ended the command
	Stopped  bool           // the command was stopped because the lease had ended or was about to end
	Received syscall.Signal // the last SIGINT, SIGTERM, SIGHUP or SIGQUIT that was passed on to the command, or 0 if there was none
}

// Run starts the command in its own process group, and returns when no process of the run is left, or 10 s after SIGKILL. If the command cannot be
// started, the error is a *NotStarted; any other error means that the guardian could not be started.
//
// When the lease is lost, or will end within Grace, Run sends SIGTERM to the group. SIGKILL follows after Grace, and in any case before the
// local deadline of the lease, so that the command is dead before others can acquire the lock. If this process is stopped or killed, a
// guardian kills the command in time. Call Run on the main thread: on Linux the command dies with the thread.
func (c *Command) Run(lease Lease) (Result, error) {
	adopt()
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	jobs := make(chan os.Signal, 8)
	signal.Notify(jobs, syscall.SIGTSTP, syscall.SIGCONT)
	defer signal.Stop(jobs)
	tty := terminal()
	tty.nameGroup()
	mark := kin.NewMark()
	g, err := guard.Start(mark)
	if err != nil {
		return Result{}, fmt.Errorf("cannot start the guardian of the command: %w", err)
	}
	r := &run{
		Command: c, lease: lease, guard: g, kin: kin.Run{Mark: mark, Group: g.PID},
		children: children, jobs: jobs, guarded: true, tty: tty,
	}
	defer r.end()
	r.look()
	if lease.Err() != nil || r.deadline <= guard.Now() {
		c.Tell("the command was not started: the lease has ended, or is about to end")
		return Result{Code: 128 + int(syscall.SIGTERM), Stopped: true}, nil
	}
	if err := r.start(); err != nil {
		code := 126
		if errors.Is(err, os.ErrNotExist) {
			code = 127
		}
		return Result{}, &NotStarted{code, fmt.Errorf("%q: %w", c.Path, err)}
	}
	r.supervise()
	return r.result, nil
}

// run is one run of a command. Only one goroutine uses it.
type run struct {
	*Command
	lease    Lease
	guard    *guard.Guard
	kin      kin.Run
	children <-chan os.Signal
	jobs     chan os.Signal // SIGTSTP and SIGCONT
	tty      tty

	pid      int  // process ID of the command
	ended    bool // the command has ended, although processes of its group may be left
	waits    bool // the command was stopped for using the terminal, and waits for the foreground
	guarded  bool // the guardian has not ended
	result   Result
	deadline time.Duration // the latest time for SIGKILL: margin() before the local deadline of the lease
	told     time.Duration // the value of deadline when the guardian last got an order; the guardian kills the command margin()/2 after this time
	termAt   time.Duration // when processes that the command has left behind get SIGTERM, or 0 if not yet known
	killAt   time.Duration // when the group gets SIGKILL, or 0 if no SIGTERM was sent
	killed   time.Duration // when SIGKILL was first sent, or 0 if not yet
	lookAt   time.Duration // when to look for strays again
	deadAt   time.Duration // when to look for zombies again
}

func (r *run) start() (err error) {
	sys := &syscall.SysProcAttr{Setpgid: true, Pgid: r.guard.PID}
	if r.tty.wanted && r.tty.ours() {
		sys.Foreground, sys.Ctty = true, r.tty.fd
	}
	dieWithParent(sys)
	env := r.kin.Mark.Environment(r.Env)
	pid, err := syscall.ForkExec(r.Path, r.Args, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: sys})
	if err != nil {
		r.tty.take() // the child may have come into the foreground before its execve failed
		return err
	}
	r.pid, r.kin.Command = pid, pid
	r.guard.Command(pid)
	return nil
}

// end ends the guardian and all processes that are left in the group.
func (r *run) end() {
	r.tty.take()
	if !r.guarded {
		r.guard.Forget()
		return
	}
	r.guard.End()
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(r.guard.PID, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

func (r *run) supervise() {
	lost := r.lease.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r.reap()
		r.look()
		next := r.decide()
		if r.over() {
			return
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-r.children:
		case s := <-r.Signals:
			if Ends(s) {
				r.result.Received = s.(syscall.Signal)
			}
			r.pass(s.(syscall.Signal))
		case s := <-r.jobs:
			if s == syscall.SIGCONT {
				r.resume()
			} else {
				r.signal(syscall.SIGTSTP)
				r.pause()
			}
		case <-lost:
			lost = nil
			r.stop("the lease is lost: " + why(r.lease.Err()))
		}
	}
}

func why(err error) string {
	if err == nil {
		return "it has ended"
	}
	return err.Error()
}

// margin returns the time between the kill of the command and the local deadline of the lease. It allows for a busy machine.
func (r *run) margin() time.Duration { return min(r.Lease/20, marginMost) }

// look reads the deadline, which each renewal moves, and sends it to the guardian. It reads the clock before the lease, so that a pause in
// between makes the deadline earlier, not later.
func (r *run) look() {
	now := guard.Now()
	expires := r.lease.ExpiresAt()
	if expires.IsZero() {
		if r.deadline == 0 {
			r.deadline = now
		}
		return
	}
	r.deadline = now + time.Until(expires) - r.margin()
	if moved := r.deadline - r.told; moved > time.Millisecond || moved < -time.Millisecond {
		if r.guard.Deadline(r.deadline + r.margin()/2) {
			r.told = r.deadline
		}
	}
}

// decide sends the signals that are due, and returns the time until the next look.
func (r *run) decide() time.Duration {
	now := guard.Now()
	if now >= r.deadline-r.Grace {
		r.stop("the lease is about to end")
	}
	if r.ended {
		r.leftBehind(now)
	}
	if r.waits {
		r.foreground()
	}
	if r.killAt != 0 && now >= min(r.killAt, r.deadline) {
		r.kill(now)
	}
	next := min(lookMost, max(r.Lease/10, lookSoon))
	if r.ended || r.killed != 0 {
		next = lookSoon
	}
	for _, at := range []time.Duration{r.deadline - r.Grace, r.deadline, r.killAt} {
		if at > now {
			next = min(next, at-now)
		}
	}
	return next
}

// foreground continues a command that needs the terminal, as soon as this process can give it.
func (r *run) foreground() {
	if r.tty.give(r.guard.PID); r.tty.given {
		r.waits = false
		r.signal(syscall.SIGCONT)
	}
}

// stop asks the group to end because the lease has ended or is about to end.
func (r *run) stop(reason string) {
	if r.result.Stopped || r.ended && r.gone() {
		return
	}
	r.result.Stopped = true
	r.ask(reason)
}

// ask sends SIGTERM to the group and its strays. It also continues them, because a stopped process gets SIGTERM only when it is continued.
func (r *run) ask(reason string) {
	if at := guard.Now() + r.Grace; r.killAt == 0 || at < r.killAt {
		r.killAt = at
	}
	r.Tell("stopping the command: " + reason)
	r.signal(syscall.SIGTERM)
	r.signal(syscall.SIGCONT)
	r.signalStrays(syscall.SIGTERM, false)
	r.signalStrays(syscall.SIGCONT, false)
}

// leftBehind handles processes that the command has left in its group. It waits for Grace, and then asks them to end, unless they were asked before.
func (r *run) leftBehind(now time.Duration) {
	switch {
	case r.termAt == 0:
		r.guard.StepAside()
		r.tty.take()
		r.termAt = now + max(r.Grace, lookMost) // at least lookMost, which gives the guardian time to leave the group
	case r.killAt == 0 && now >= r.termAt:
		r.ask("it has ended, but processes of its group have not")
	}
}

func (r *run) kill(now time.Duration) {
	if r.killed == 0 {
		r.killed = now
	}
	r.signal(syscall.SIGKILL)
	r.signalStrays(syscall.SIGKILL, true)
}

// over reports whether the run is over: no process is left, or the remaining processes cannot be killed.
func (r *run) over() bool {
	if r.ended && r.gone() {
		return true
	}
	if r.killed != 0 && guard.Now() > r.killed+killWait {
		r.Tell(fmt.Sprintf("processes of group %d have not ended, although they were killed", r.guard.PID))
		if !r.ended {
			r.result.Code = 128 + int(syscall.SIGKILL)
		}
		return true
	}
	return false
}

// gone reports whether no process of the run is left. It searches for strays twice, because one search can miss a process: before the search reaches
// a stray, the stray may start a child and end. If the search has already passed the child's ID, it finds neither of the two.
//
// If there are very many processes, a search takes long. So after a search that has found strays, gone does not search again for ten times as long
// as that search took.
func (r *run) gone() bool {
	now := guard.Now()
	if !errors.Is(syscall.Kill(-r.guard.PID, 0), syscall.ESRCH) && !r.dead(now) || now < r.lookAt {
		return false
	}
	for range 2 {
		if len(r.kin.Strays(true)) > 0 {
			r.lookAt = guard.Now() + 10*(guard.Now()-now)
			return false
		}
	}
	return true
}

// dead reports whether only zombies are left in the group. After a search that has found other processes, dead does not search again for ten times as
// long as that search took, and returns false meanwhile.
func (r *run) dead(now time.Duration) bool {
	if now < r.deadAt {
		return false
	}
	if r.kin.Dead() {
		return true
	}
	r.deadAt = guard.Now() + 10*(guard.Now()-now)
	return false
}
