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
	lookMost   = 100 * time.Millisecond // between looks at the clock: timers stand still while the machine is suspended
	marginMost = 250 * time.Millisecond // that the command is killed before the local deadline
	lookSoon   = 5 * time.Millisecond   // between looks for the end of a process group
	killWait   = 10 * time.Second       // for a process that has been killed, but has not ended: the kernel may be busy with it
)

// Lease is what a command runs under: see holdfast.Lease.
type Lease interface {
	Done() <-chan struct{}
	Err() error
	ExpiresAt() time.Time
}

// Command is a command that runs under a lease.
type Command struct {
	Path  string // of the program
	Args  []string
	Env   []string
	Lease time.Duration // how long the lease is when it has just been renewed
	Grace time.Duration // between SIGTERM and SIGKILL
	// Signals are passed on to the command.
	Signals <-chan os.Signal
	// Tell reports what a user should know of.
	Tell func(text string)
}

// Result says how a command has ended.
type Result struct {
	Code     int            // exit code, or 128 + the signal that ended it
	Stopped  bool           // it was stopped because the lease ended, or would have
	Received syscall.Signal // the last signal passed on that asks a process to end; 0: none
}

// Run starts the command, in a process group of its own, and returns when no process of the group is left.
//
// SIGTERM goes to the group when the lease is lost, or will end in Grace. SIGKILL follows after Grace, and in any case before the local
// deadline of the lease, so that the command is dead before others can acquire the lock. A guardian does the same if this process is
// stopped or killed. Call Run on the main thread: on Linux the command dies with the thread.
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

// run is one run of a command. One goroutine uses it.
type run struct {
	*Command
	lease    Lease
	guard    *guard.Guard
	kin      kin.Run
	children <-chan os.Signal
	jobs     chan os.Signal // SIGTSTP and SIGCONT
	tty      tty

	pid      int  // of the command
	ended    bool // the command has, although processes of its group may be left
	guarded  bool // the guardian has not ended
	result   Result
	deadline time.Duration // before which the command must be dead
	told     time.Duration // the deadline that the guardian has
	termAt   time.Duration // when what the command has left behind gets SIGTERM; 0: not yet known
	killAt   time.Duration // 0: not yet asked to end
	killed   time.Duration // when SIGKILL was sent first; 0: not yet
	lookAt   time.Duration // when to look for strays again
}

func (r *run) start() (err error) {
	sys := &syscall.SysProcAttr{Setpgid: true, Pgid: r.guard.PID}
	if r.tty.ours() {
		sys.Foreground, sys.Ctty = true, r.tty.fd
	}
	dieWithParent(sys)
	env := r.kin.Mark.Environment(r.Env)
	pid, err := syscall.ForkExec(r.Path, r.Args, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: sys})
	if err != nil {
		r.tty.take() // the child may have had it already
		return err
	}
	r.pid, r.kin.Command = pid, pid
	r.guard.Command(pid)
	return nil
}

// end ends the guardian, and what may be left of the group.
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

// margin is how long before the local deadline the command is killed. A busy machine needs time for that.
func (r *run) margin() time.Duration { return min(r.Lease/20, marginMost) }

// look reads the deadline, which each renewal moves, and tells the guardian. The clock is read before the lease, so that a pause in between
// makes the deadline earlier, not later.
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

// decide does what it is time for, and returns when to look again.
func (r *run) decide() time.Duration {
	now := guard.Now()
	if now >= r.deadline-r.Grace {
		r.stop("the lease is about to end")
	}
	if r.ended && r.killAt == 0 {
		r.leftBehind(now)
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

// stop asks the group to end because of the lease.
func (r *run) stop(reason string) {
	if r.result.Stopped || r.ended && r.gone() {
		return
	}
	r.result.Stopped = true
	r.ask(reason)
}

// ask sends SIGTERM. A stopped process gets it when it continues.
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

// leftBehind gives processes that the command has left in its group Grace to end, and then asks them to.
func (r *run) leftBehind(now time.Duration) {
	switch {
	case r.termAt == 0:
		r.guard.StepAside()
		r.tty.take()
		r.termAt = now + r.Grace
	case now >= r.termAt:
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

// over reports whether no process is left, or those that are left cannot be killed.
func (r *run) over() bool {
	if r.ended && r.gone() {
		return true
	}
	if r.killed != 0 && guard.Now() > r.killed+killWait {
		r.Tell(fmt.Sprintf("processes of group %d do not end although they were killed", r.guard.PID))
		if !r.ended {
			r.result.Code = 128 + int(syscall.SIGKILL)
		}
		return true
	}
	return false
}

// gone reports whether the command has left no process. Strays are looked for twice: a process may start another one that the first look
// has passed already, and end before the look gets to it. Where there are very many processes, a look takes long, and so does the pause
// after it.
func (r *run) gone() bool {
	now := guard.Now()
	if !errors.Is(syscall.Kill(-r.guard.PID, 0), syscall.ESRCH) || now < r.lookAt {
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
