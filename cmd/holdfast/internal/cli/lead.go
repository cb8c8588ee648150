package cli

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// leadFlags are the values of lead's flags.
type leadFlags struct {
	lease, grace time.Duration
	value        string
	once, quiet  bool
}

func leadCommand() *command {
	o := leadFlags{lease: defaultLease, grace: -1}
	return &command{
		name: "lead", args: "[flags] NAME -- COMMAND [ARGUMENT...]", runs: true,
		does: "run a command while leading an election",
		about: `Campaigns in the election NAME and runs COMMAND while this process leads. One process leads at a time. If the leadership is lost, COMMAND is killed before anyone else can lead, as with "holdfast exec". Then holdfast campaigns again, and runs COMMAND again in its next term.

If COMMAND ends with exit code 0, holdfast gives the leadership up, lets others lead first, and runs COMMAND again in its next term; with --once it ends instead. If COMMAND ends with another exit code, or ends after holdfast has passed on SIGINT, SIGTERM, SIGHUP or SIGQUIT, holdfast gives the leadership up and ends with the exit code of COMMAND.

The environment of COMMAND has HOLDFAST_NAME, the name of the election; HOLDFAST_ID, the owner field in Redis; and HOLDFAST_TOKEN, the fencing token of the term, which grows from term to term.`,
		exits: `  that of COMMAND, or 128 + the number of the signal that ended COMMAND or the campaign
  76   the leadership was lost, and no further term was to follow (--once, a signal, COMMAND failed)
  69   the keys hold something else, or are on another server of a cluster, and the URL lacks ?cluster=true;
       any other failure of Redis is reported once, and lead keeps trying
  71   the guardian could not be started
  64   the command line is wrong
  126  COMMAND cannot be run
  127  COMMAND was not found`,
		examples: `  # one scheduler, no matter how many machines run this
  holdfast lead scheduler -- /usr/local/bin/scheduler

  # tell others where the leader is
  holdfast lead --value "http://$HOSTNAME:8080" api -- ./api
  redis-cli HGET "holdfast_leader:{api}" value`,
		flags: func(f *flags) {
			f.duration(&o.lease, "lease", "how long after a crash another process can lead, 50ms to 24h; default 30s; the lease is renewed every third of this time")
			f.duration(&o.grace, "grace", "time from SIGTERM to SIGKILL; default 5s, or a third of the lease if that is less")
			f.text(&o.value, "value", "TEXT", "what others learn about the leader, such as its address; default: COMMAND@host:pid")
			f.flag(&o.once, "once", "end when COMMAND has ended, even with exit code 0")
			f.flag(&o.quiet, "q quiet", "print nothing about the election")
		},
		run: func(a *app, in input) int { return a.lead(o, in) },
	}
}

// term is a term in progress. The election's goroutine passes it to the main goroutine.
type term struct {
	lease *holdfast.Lease
	over  chan error // what the function given to Election.Run should return
}

func (a *app) lead(o leadFlags, in input) int {
	a.quiet = o.quiet
	h, err := newHolding(in, o.lease, o.grace, 0)
	if err != nil {
		return a.refuse("lead", err)
	}
	defer a.writeBehind()()
	client, code := a.client("lead")
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
	election := rt.Election(h.name, holdfast.ElectionOptions{Value: o.value, Lease: h.lease})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	terms, ended := make(chan term), make(chan error, 1)
	go func() {
		ended <- election.Run(ctx, func(_ context.Context, t holdfast.Term) error {
			running := term{t.Lease, make(chan error, 1)}
			select {
			case terms <- running:
			case <-ctx.Done():
				return holdfast.ErrResign
			}
			return <-running.over
		})
	}()
	orphans, stopOrphans := supervise.Orphans()
	defer stopOrphans()
	suspended := make(chan os.Signal, 1)
	for {
		select {
		case <-orphans:
			supervise.Collect()
		case <-suspended:
			suspend(suspended)
		case err := <-ended:
			if err != nil {
				return a.failed(err)
			}
			return exitOK
		case s := <-signals:
			if supervise.Ends(s) {
				cancel()
				awaitEnd(ended)
				signal, _ := s.(syscall.Signal)
				return 128 + int(signal)
			}
		case t := <-terms:
			leaveSuspensions(suspended) // while the command runs, package supervise handles SIGTSTP
			code, again := a.serve(o, h, t, election, signals)
			if !again {
				t.over <- holdfast.ErrResign
				awaitEnd(ended)
				return code
			}
			catchSuspensions(suspended) // package supervise has caught SIGTSTP: without this, SIGTSTP would no longer stop this process
			t.over <- nil
		}
	}
}

// serve runs the command in one term. It must be called by the main goroutine.
func (a *app) serve(o leadFlags, h *holding, t term, e *holdfast.Election, signals <-chan os.Signal) (code int, again bool) {
	a.say("leading %s, token %d", text.Show(h.name), t.lease.Token())
	result, err := h.under(a, t.lease, signals)
	switch {
	case err != nil:
		return a.notRun(err), false
	case result.Received != 0 || o.once:
		return a.code(result, release(t.lease)), false
	case result.Stopped || errors.Is(t.lease.Err(), holdfast.ErrLeaseLost):
		a.say("no longer leading %s", text.Show(h.name))
		return 0, true
	case result.Code != 0:
		return a.code(result, release(t.lease)), false
	}
	e.Resign()
	return 0, true
}

// awaitEnd waits until the leadership has been given up, but not longer than endWait, because Redis may be unreachable.
func awaitEnd(ended <-chan error) {
	timer := time.NewTimer(endWait)
	defer timer.Stop()
	select {
	case <-ended: //nolint:errcheck // the exit code is known already
	case <-timer.C:
	}
}
