package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/scripts"
)

// Election is a handle to a named election. The processes that call Run elect one leader at a time. Safe for concurrent use.
//
// The leader holds the fenced lock of the same name, so an election and a FencedLock with one name exclude each other. The leader is announced in a
// hash and on a channel, which are both called "holdfast_leader:{name}".
type Election struct {
	rt      *Runtime
	lock    *Lock
	options ElectionOptions
	bad     error // why the name or the options are invalid, or nil if they are valid

	mu      sync.Mutex
	running bool
	term    *term // the term in progress, or nil

	earliest time.Time // after a resignation, Run begins no campaign before this instant; used by Run only
}

// ElectionOptions configures an Election. The zero value works.
type ElectionOptions struct {
	// Value is what other processes learn about this process when it leads, such as its address. Default: Options.Process, or the runtime's ID if
	// Options.Process is empty.
	Value string
	// Lease is the lease of the leadership: after a crash of the leader, nobody else can be elected until it has expired.
	// 50 ms to 24 h; default Options.Lease.
	Lease time.Duration
	// OnLeader is called while Run runs: with the present leader, if any, and then with each new one, which may be this process. The
	// calls are made one at a time, concurrently with the function passed to Run. OnLeader may block; Run returns only after
	// OnLeader has returned. A panic of OnLeader is reported by a CallbackPanicked event.
	OnLeader func(Leader)
}

// Term is one period of leadership of this process.
type Term struct {
	// Token is the fencing token of the term. It grows from term to term, across all processes: see Runtime.FencedLock.
	Token int64
	// Lease is the lease of the election's lock. Check Lease.Valid immediately before each side effect.
	Lease *Lease
}

// Leader describes the leader of an election.
type Leader struct {
	Value   string    // the leader's ElectionOptions.Value
	Runtime string    // the leader's Runtime.ID
	Token   int64     // the fencing token of the leader's term
	Since   time.Time // when the leader announced itself, by the clock of the Redis server: soon after the term began
}

// Election returns the election with this name. Making a handle is cheap and does no I/O. A bad name or option is reported by the
// first call that can return an error: that error matches ErrInvalid.
func (rt *Runtime) Election(name string, o ElectionOptions) *Election {
	e := &Election{rt: rt, lock: rt.FencedLock(name), options: o}
	setDefault(&e.options.Value, rt.engine.Process())
	setDefault(&e.options.Value, rt.id)
	setDefault(&e.options.Lease, rt.engine.Lease())
	if e.bad = e.lock.bad; e.bad == nil {
		e.bad = lease.Check("lease", e.options.Lease)
	}
	return e
}

// Run campaigns for the leadership and calls lead while this process leads. It campaigns again when the term was lost, when Resign has ended it, and
// when lead has returned nil. It returns nil when ctx ends or lead returns ErrResign. If lead returns another error while the term lasts, Run returns
// that error. Once lead's context has ended, Run ignores what lead returns, unless it is ErrResign.
//
// lead's context ends when ctx ends, when Resign is called, or when the lease is lost. It always ends before anyone else can lead. After Resign the
// cause of lead's context is ErrResign; after a loss it is the lease's Err. LeaseFromContext returns the lease. The leadership is given up only after
// lead has returned, so lead should return soon after its context has ended. If lead panics, the leadership is given up and the panic propagates.
//
// While Redis is unreachable, a term ends at the deadline of its lease, and Run keeps trying. Only the first of several failures in a row is logged.
//
// Run returns ErrInvalid for a bad name or option, or if an earlier call of this Election's Run has not returned yet. If the keys of the election's
// lock hold other data, Run returns ErrForeignKey. If the client is for a single server, but these keys are on another master of a cluster, Run
// returns the server's error. If only the key "holdfast_leader:{name}" holds other data, the leader is elected but not announced, and Run logs that.
// When the runtime is closed, Run returns ErrClosed after lead has returned. Runtime.Shutdown waits until the term in progress ends, so end ctx
// before you call Shutdown.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term Term) error) error {
	if err := e.begin(lead == nil); err != nil {
		return fmt.Errorf("holdfast: run for %s: %w", lease.Quoted(e.lock.Name()), err)
	}
	defer e.end()
	defer e.tellLeaders(ctx)()
	running, stop := e.untilClosed(ctx)
	defer stop()
	for failed := false; ; {
		pause(running, time.Until(e.earliest))
		t := &term{election: e}
		err := e.lock.Do(running, func(ctx context.Context) error { t.run(ctx, lead); return nil }, t.acquire()...)
		if t.resigned() {
			e.earliest = time.Now().Add(e.options.Lease / 4)
		}
		switch {
		case errors.Is(t.err, ErrResign):
			return nil
		case t.err != nil:
			return t.err
		case ctx.Err() != nil:
			return nil
		case running.Err() != nil:
			return fmt.Errorf("holdfast: run for %s: %w", lease.Quoted(e.lock.Name()), ErrClosed)
		case errors.Is(err, ErrClosed), errors.Is(err, ErrInvalid), hopeless(err) && !t.began:
			return err
		case t.began:
			failed = false
		default:
			e.log(&failed, "campaign failed", err)
			pause(running, retryAfter/2+e.rt.engine.Jitter(retryAfter/2))
		}
	}
}

// hopeless reports whether a campaign that failed with this error would fail again. It would if the election's keys hold other data, or if the client
// cannot reach the master that has these keys.
func hopeless(err error) bool {
	return errors.Is(err, ErrForeignKey) || errors.Is(err, redisnode.ErrInCluster)
}

// retryAfter is the longest pause between a failed call to Redis and the next attempt.
const retryAfter = time.Second

// Check asks the server whether this election can work. Besides what Runtime.Check asks about a fenced lock, it asks for the rights to announce the
// leader and to watch who leads. Runtime.Check describes the error. If the name or an option is invalid, the error matches ErrInvalid.
func (e *Election) Check(ctx context.Context) error {
	if e.bad != nil {
		return fmt.Errorf("holdfast: check %s: %w", lease.Quoted(e.lock.Name()), e.bad)
	}
	return e.rt.engine.CheckServer(ctx, []*scripts.Kind{scripts.FencedLock, scripts.Electing})
}

func (e *Election) begin(withoutLead bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.bad != nil:
		return e.bad
	case withoutLead:
		return fmt.Errorf("%w: the function is nil", ErrInvalid)
	case e.running:
		return fmt.Errorf("%w: it is running already", ErrInvalid)
	}
	e.running = true
	return nil
}

func (e *Election) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = false
}

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// log logs a failure, but only the first of several in a row.
func (e *Election) log(failed *bool, message string, err error) {
	if !*failed {
		e.rt.engine.Warn(message, slog.String("election", e.lock.Name()), slog.Any("err", err))
	}
	*failed = true
}

// IsLeader reports whether this Election's Run leads at this moment, by this process's clock. It is false after Resign, after lead has returned, and
// after the local deadline of the lease, even if no loss has been noticed yet.
func (e *Election) IsLeader() bool {
	e.mu.Lock()
	t := e.term
	e.mu.Unlock()
	return t != nil && t.ctx.Err() == nil && t.lease.Valid()
}

// Resign ends this Election's term in progress: lead's context ends with the cause ErrResign, and the leadership is given up once lead has
// returned. Then this process does not campaign for a quarter of the lease, so that others lead first. If no term is in progress,
// Resign does nothing.
func (e *Election) Resign() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term != nil {
		e.term.cancel(ErrResign)
	}
}
