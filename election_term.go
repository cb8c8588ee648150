package holdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/scripts"
)

// term is one campaign of this process and, if it succeeds, the term that follows.
type term struct {
	election *Election

	// set once the lock is held
	began  bool
	lease  *Lease
	ctx    context.Context // the context that the function lead gets
	cancel context.CancelCauseFunc
	err    error // the error that lead returned, if Run must not ignore it
}

// acquire returns the options for acquiring the lock. The options contain a new owner, so a campaign never re-enters a lock that this process holds,
// even if Run's context has an owner.
func (t *term) acquire() []AcquireOption {
	return []AcquireOption{WithOwner(t.election.rt.NewOwner()), WithRenewedLease(t.election.options.Lease)}
}

// run calls lead for one term. The lock is held, and ctx carries its lease.
func (t *term) run(ctx context.Context, lead func(ctx context.Context, term Term) error) {
	t.began, t.lease = true, LeaseFromContext(ctx)
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer t.end()
	t.election.setTerm(t)
	announced := make(chan struct{})
	beside.Go(func() { t.announce(announced) })
	beside.Go(t.trace)
	select { // lead waits for the announcement, so that others usually know the leader when lead begins
	case <-announced:
	case <-time.After(min(retryAfter, t.election.options.Lease/4)):
	case <-t.ctx.Done():
	}
	if t.ctx.Err() != nil {
		return
	}
	if err := lead(t.ctx, Term{Token: t.lease.Token(), Lease: t.lease}); t.ctx.Err() == nil || errors.Is(err, ErrResign) {
		t.err = err
	}
}

// trace reports the beginning and the end of the term to Options.Trace.
func (t *term) trace() {
	change := LeaderChange{Name: t.election.lock.Name(), Leading: true, Token: t.lease.Token()}
	t.election.rt.engine.TellLeader(change)
	<-t.ctx.Done()
	change.Leading = false
	t.election.rt.engine.TellLeader(change)
}

func (t *term) end() {
	t.election.setTerm(nil)
	t.cancel(context.Canceled)
}

func (e *Election) setTerm(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = t
}

// resigned reports whether this process has given up the term by itself. Run then waits before its next campaign, so that others go first.
func (t *term) resigned() bool {
	return errors.Is(t.err, ErrResign) || t.began && errors.Is(context.Cause(t.ctx), ErrResign)
}

// announce writes to Redis who leads. It repeats the announcement until the term ends, because Redis may lose it. After the first attempt, successful
// or not, it closes the channel `announced`.
func (t *term) announce(announced chan struct{}) {
	e := t.election
	call := scripts.AnnounceLeader(e.rt.engine.Site(), e.lock.address.Raw, scripts.Leader{
		Token: t.lease.Token(), Grant: t.lease.ID(), Runtime: e.rt.id, Value: e.options.Value,
	}, e.options.Lease+2*e.lookEvery())
	for failed, first := false, true; t.ctx.Err() == nil; first = false {
		again := e.lookEvery()
		if _, err := e.ask(t.ctx, call); err != nil && t.ctx.Err() == nil {
			e.log(&failed, "leader not announced", err)
			again = retryAfter
		} else {
			failed = false
		}
		if first {
			close(announced)
		}
		pause(t.ctx, again)
	}
}

// lookEvery is the longest pause between two announcements of a leader. A Watch asks Redis at least this often who leads.
func (e *Election) lookEvery() time.Duration {
	return min(max(e.options.Lease, time.Second), 30*time.Second)
}
