package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

const (
	defaultLease = 30 * time.Second
	defaultGrace = 5 * time.Second
	endWait      = 2 * time.Second // longest wait for each step at the end: the release of a lock, the close of the runtime or of the page
)

// execFlags are the values of exec's flags.
type execFlags struct {
	try, quiet                          bool
	wait, lease, atLeast, atMost, grace time.Duration
	kind                                holdfast.Kind
	permits                             int
	conflict                            int
}

func execCommand() *command {
	o := execFlags{wait: -1, lease: defaultLease, atMost: -1, grace: -1, conflict: exitNotAcquired}
	return &command{
		name: "exec", args: "[flags] NAME -- COMMAND [ARGUMENT...]", runs: true,
		does: "run a command while holding a lock",
		about: `Waits for the lock NAME, runs COMMAND while holding it, and releases it when COMMAND has ended.

While COMMAND runs, holdfast renews the lease of the lock. If renewals fail, COMMAND is killed before anyone else can acquire the lock: its process group gets SIGKILL shortly before the lease ends, and SIGTERM --grace before that. After a loss that cannot be predicted (the lock was freed by force, its key was deleted), COMMAND gets SIGTERM within a third of the lease, and SIGKILL after --grace. If holdfast itself is stopped or killed, a second process, the guardian, kills COMMAND in time.

COMMAND runs in a process group of its own. If holdfast is in the foreground of the terminal, it puts this group there instead; in a pipeline, it does so only once COMMAND needs the terminal. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to the group. Before the lock is held, the first four end the wait. Ctrl-Z stops holdfast and COMMAND; if they are not continued in time, COMMAND is killed.

Processes that COMMAND leaves behind in its group have --grace to end before they get SIGTERM, and as long again before SIGKILL. Only then is the lock released. On Linux this also applies to processes that have left the group but not the session (timeout, jobs of a shell). Daemons, which have a session of their own, are not reached. As process 1 of a container, holdfast also collects orphans.

The environment of COMMAND has HOLDFAST_NAME, the name of the lock; HOLDFAST_ID, the owner field in Redis; and HOLDFAST_TOKEN, the fencing token of --kind fenced, otherwise 0.`,
		exits: `  that of COMMAND, or 128 + the number of the signal that ended COMMAND or the wait for the lock
  75   others have the lock (--try, --wait); -E chooses another code
  76   the lock was lost, or the time of --at-most was over, before COMMAND had ended
  69   Redis cannot be reached, or refuses
  71   the guardian could not be started
  64   the command line is wrong
  126  COMMAND cannot be run
  127  COMMAND was not found`,
		examples: `  # one backup at a time, no matter how many machines run this
  holdfast exec backup -- pg_dump -f /backup/orders.sql orders

  # cron on every host: one runs the job, the others do nothing, even if their clocks differ by seconds
  holdfast exec --try --at-least 30s -E 0 nightly -- /usr/local/bin/nightly

  # wait a minute at most, and pass the fencing token on
  holdfast exec --wait 1m --kind fenced ledger -- sh -c 'post --token "$HOLDFAST_TOKEN"'

  # at most three at a time
  holdfast exec --permits 3 encoder -- ffmpeg -i in.mkv out.mp4`,
		flags: func(f *flags) {
			f.flag(&o.try, "n try", "make one attempt instead of waiting")
			f.duration(&o.wait, "w wait", "wait for the lock for at most D; default: no limit")
			f.kind(&o.kind, "the kind of lock", kindWords()[:7]...)
			f.number(&o.permits, 1, math.MaxInt32, "permits", "hold one of N permits of a permit semaphore; N has no effect if the number of permits was set before")
			f.duration(&o.lease, "lease", "how long Redis keeps the lock after a crash, 50ms to 24h; default 30s; the lease is renewed every third of this time")
			f.duration(&o.atLeast, "at-least", "keep the lock for at least D after it was acquired, even if COMMAND ends sooner")
			f.duration(&o.atMost, "at-most", "stop COMMAND when it has held the lock for D")
			f.duration(&o.grace, "grace", "time from SIGTERM to SIGKILL; default 5s, or a third of the lease or of --at-most if that is less")
			f.flag(&o.quiet, "q quiet", "print nothing about the lock")
			f.number(&o.conflict, 0, 255, "E conflict-exit-code", "exit code if the lock was not acquired; default 75")
		},
		run: func(a *app, in input) int { return a.exec(o, in) },
	}
}

// holding has the settings that exec and lead share: the name of the lock, the command and the durations.
type holding struct {
	name    string
	program []string
	path    string        // path of the program
	lease   time.Duration // of the lock
	longest time.Duration // supervise.Command.Lease: the lock's lease or --at-most, whichever is less
	grace   time.Duration
}

// newHolding checks the arguments and finds the program. longest is the time of --at-most, or 0 if it was not given. The error describes a wrong
// invocation, or is a *supervise.NotStarted.
func newHolding(in input, lease, grace, longest time.Duration) (*holding, error) {
	switch {
	case len(in.args) == 0:
		return nil, errors.New("the name of the lock is missing")
	case len(in.args) > 1 && in.program == nil:
		return nil, errors.New("write -- before the command")
	case len(in.args) > 1:
		return nil, fmt.Errorf("only the name of the lock may stand before --, not %s", text.Show(in.args[1]))
	case len(in.program) == 0:
		return nil, errors.New("the command is missing: write it after --")
	case lease == 0: // the library would take it for the default
		return nil, errors.New("--lease must be from 50ms to 24h, not 0s")
	}
	h := &holding{name: in.args[0], program: in.program, lease: lease, grace: grace}
	if h.longest = h.lease; longest != 0 {
		h.longest = min(h.lease, longest)
	}
	switch {
	case grace < 0:
		h.grace = min(defaultGrace, h.longest/3)
	case grace > h.lease/2:
		return nil, fmt.Errorf("--grace must be at most half of the lease, %v: otherwise a renewal that is only late would stop the command", h.lease/2)
	case grace >= h.longest:
		return nil, errors.New("--grace must be less than --at-most")
	}
	path, err := supervise.Find(in.program[0])
	h.path = path
	return h, err
}

func (a *app) refuse(command string, err error) int {
	if failed, ok := errors.AsType[*supervise.NotStarted](err); ok {
		a.complain(text.Message(err.Error()))
		return failed.Code
	}
	return a.usage(command, err)
}

// under runs the command under a lease.
func (h *holding) under(a *app, lease *holdfast.Lease, signals <-chan os.Signal) (supervise.Result, error) {
	c := &supervise.Command{
		Path: h.path, Args: h.program, Env: environment(h.name, lease), Lease: h.longest, Grace: h.grace, Signals: signals,
		Tell: func(told string) { a.say("%s", text.Message(told)) },
	}
	return c.Run(lease)
}

func environment(name string, lease *holdfast.Lease) (env []string) {
	const prefix = "HOLDFAST_"
	for _, variable := range os.Environ() {
		switch key, _, _ := strings.Cut(variable, "="); key {
		case prefix + "NAME", prefix + "ID", prefix + "TOKEN":
		default:
			env = append(env, variable)
		}
	}
	return append(env, prefix+"NAME="+name, prefix+"ID="+lease.ID(), fmt.Sprintf("%sTOKEN=%d", prefix, lease.Token()))
}

func (a *app) exec(o execFlags, in input) int {
	a.quiet = o.quiet
	h, options, err := o.read(in)
	if err != nil {
		return a.refuse("exec", err)
	}
	defer a.writeBehind()()
	client, code := a.client("exec")
	if client == nil {
		return code
	}
	defer func() { _ = client.Close() }()
	signals, stop := supervise.Signals()
	defer stop()
	rt, err := a.newRuntime(client, holdfast.Options{Lease: h.lease, Process: h.process()})
	if err != nil {
		return a.failed(err)
	}
	defer closeRuntime(rt)
	lease, ended, err := awaitLease(signals, func(ctx context.Context) (*holdfast.Lease, error) { return o.acquire(ctx, rt, h.name, options) })
	switch {
	case ended != 0:
		if lease != nil {
			_ = release(lease)
		}
		return 128 + int(ended)
	case taken(err):
		a.say("%s", text.Message(strings.TrimPrefix(err.Error(), "holdfast: ")))
		return o.conflict
	case err != nil:
		return a.failed(err)
	}
	result, err := h.under(a, lease, signals)
	lost := release(lease)
	if err != nil {
		return a.notRun(err)
	}
	return a.code(result, lost)
}

// code returns the exit code for a command that has ended. The argument `lost` is the error of the release: the release may be the first to notice
// that the lock was lost.
func (a *app) code(result supervise.Result, lost error) int {
	switch {
	case result.Stopped:
		return exitLost
	case errors.Is(lost, holdfast.ErrLeaseLost):
		a.say("the lock was lost before the command ended (exit code %d): %s", result.Code, text.Message(lost.Error()))
		return exitLost
	case lost != nil:
		a.say("the lock may be kept until its lease ends: %s", text.Message(lost.Error()))
	}
	return result.Code
}

// notRun reports why a command did not run.
func (a *app) notRun(err error) int {
	a.complain(text.Message(err.Error()))
	if failed, ok := errors.AsType[*supervise.NotStarted](err); ok {
		return failed.Code
	}
	return exitSystem
}

// read checks the flags of exec.
func (o *execFlags) read(in input) (*holding, []holdfast.AcquireOption, error) {
	switch {
	case o.try && o.wait >= 0:
		return nil, nil, errors.New("--try does not wait: leave out --wait")
	case o.wait == 0:
		return nil, nil, errors.New("--wait must be longer than 0s: to make one attempt, write --try")
	case o.atMost == 0:
		return nil, nil, errors.New("--at-most must be longer than 0s")
	case o.permits != 0 && o.kind == "":
		o.kind = holdfast.KindPermitSemaphore
	case o.permits != 0 && o.kind != holdfast.KindPermitSemaphore:
		return nil, nil, errors.New("--permits needs --kind permit-semaphore")
	case o.kind == "":
		o.kind = holdfast.KindLock
	}
	if o.kind == holdfast.KindPermitSemaphore && (o.atLeast != 0 || o.atMost > 0) { // the library would refuse this after setPermits
		return nil, nil, errors.New("a permit semaphore has neither --at-least nor --at-most")
	}
	h, err := newHolding(in, o.lease, o.grace, max(o.atMost, 0))
	if err != nil {
		return nil, nil, err
	}
	var options []holdfast.AcquireOption
	if o.wait > 0 {
		options = append(options, holdfast.WithWait(o.wait))
	}
	if o.atMost > 0 {
		options = append(options, holdfast.WithAtMost(o.atMost))
	}
	if o.atLeast != 0 {
		options = append(options, holdfast.WithAtLeast(o.atLeast))
	}
	return h, options, nil
}

// acquirer is a lock of any kind that has leases.
type acquirer interface {
	Acquire(ctx context.Context, o ...holdfast.AcquireOption) (*holdfast.Lease, error)
	TryAcquire(ctx context.Context, o ...holdfast.AcquireOption) (*holdfast.Lease, error)
}

func (o *execFlags) acquire(
	ctx context.Context, rt *holdfast.Runtime, name string, options []holdfast.AcquireOption,
) (*holdfast.Lease, error) {
	if o.permits != 0 {
		if err := o.setPermits(ctx, rt.PermitSemaphore(name)); err != nil {
			return nil, err
		}
	}
	lock := lockOf(rt, o.kind, name)
	if o.try {
		return lock.TryAcquire(ctx, options...)
	}
	return lock.Acquire(ctx, options...)
}

// permitsMax limits how long --try waits for the call that sets the number of permits.
const permitsMax = 2 * time.Second

// setPermits sets the number of permits, unless it was set before. It takes no longer than --try or --wait allows.
func (o *execFlags) setPermits(ctx context.Context, semaphore *holdfast.PermitSemaphore) error {
	wait := o.wait
	if o.try {
		wait = permitsMax
	}
	if wait > 0 {
		limited, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		ctx = limited
	}
	_, err := semaphore.TrySetPermits(ctx, o.permits)
	return err
}

func lockOf(rt *holdfast.Runtime, kind holdfast.Kind, name string) acquirer {
	switch kind {
	case holdfast.KindFair:
		return rt.FairLock(name)
	case holdfast.KindFenced:
		return rt.FencedLock(name)
	case holdfast.KindSpin:
		return rt.SpinLock(name)
	case holdfast.KindRead:
		return rt.RWLock(name).Read()
	case holdfast.KindWrite:
		return rt.RWLock(name).Write()
	case holdfast.KindPermitSemaphore:
		return rt.PermitSemaphore(name)
	}
	return rt.Lock(name)
}

// awaitLease calls the function `acquire`, waits for it, and returns its results. A signal that asks holdfast to end cancels the acquire; awaitLease
// then also returns the signal. The acquire may succeed in spite of the signal. In that case the caller has to release the lease.
func awaitLease(
	signals <-chan os.Signal, acquire func(ctx context.Context) (*holdfast.Lease, error),
) (lease *holdfast.Lease, ended syscall.Signal, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orphans, stop := supervise.Orphans()
	defer stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		lease, err = acquire(ctx)
	}()
	for {
		select {
		case <-over:
			return lease, ended, err
		case <-orphans:
			supervise.Collect()
		case s := <-signals:
			if supervise.Ends(s) {
				ended, _ = s.(syscall.Signal)
				cancel()
			}
		}
	}
}

// process is the name under which others see this process.
func (h *holding) process() string {
	base := filepath.Base(h.path)
	if len(base) > 100 || text.Show(base) != base {
		base = "holdfast"
	}
	return holdfast.HostProcess(base)
}

// release releases the lease, and waits up to endWait until Redis confirms it.
func release(lease *holdfast.Lease) error {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	return lease.Release(ctx)
}

// closeRuntime closes the runtime. If Redis cannot be reached, it gives up after endWait; the keys that remain expire.
func closeRuntime(rt *holdfast.Runtime) {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	_ = rt.Close(ctx)
}
