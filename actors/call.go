package actors

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// The handles call these methods. An operation on a lock is one request and one answer. The machines make all decisions about locks.

// Acquire waits for the lock until ctx ends, or, if s.Wait is set, until that time has passed. If there is no error, Acquire has filled in hold.
func (e *Engine) Acquire(ctx context.Context, a *lease.Address, s wait.AcquireSpec, hold *lease.Hold) error {
	r, err := e.acquire(ctx, a, s, hold)
	if err != nil {
		return err
	}
	if !s.Try && (s.Wait <= 0 || s.Wait > sendMost) && lasts(ctx) {
		r.Offer.Make()
	}
	e.registry.request(r)
	if s.Wait > 0 {
		timer := e.endAfter(s.Wait, r)
		defer timer.Stop()
	}
	e.sendLeft(r)
	_, err = e.await(ctx, r, 0, s.Wait <= 0) // if there is a timer, r is not recycled, because the timer may still cancel it
	return err
}

// sendMost is the longest time that a goroutine spends in go-redis when it sends a call itself: see gateway.Run.
const sendMost = 2 * redisnode.Silence

// lasts reports whether a goroutine with this context may send a call itself. Sending takes up to sendMost, and a goroutine that is sending does not
// notice the end of its context. So the goroutine may send only if the context's deadline is more than sendMost away. If the context is cancelled
// while the goroutine is sending, the goroutine notices this up to sendMost late.
func lasts(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return ctx.Err() == nil && (!bounded || time.Until(deadline) > sendMost)
}

// sendLeft sends the call that the actor of the lock wants this goroutine to send (see rpc.Offer). If there is no such call, sendLeft does nothing.
// A hook of the client may end the goroutine during the call (runtime.Goexit, as t.FailNow does). After that, nobody waits for the answer to the
// request, so sendLeft abandons the request.
func (e *Engine) sendLeft(r *wait.Request) {
	call := r.Offer.Collect()
	if call == nil {
		return
	}
	returned := false
	defer func() {
		if !returned {
			go e.abandon(r)
		}
	}()
	call.From.(*member).shard.lane.outlet(call).Run(call)
	returned = true
}

// abandon cancels a request whose requester is gone. If the request has succeeded nevertheless, abandon releases the lock or gives the permits back.
func (e *Engine) abandon(r *wait.Request) {
	e.Cancel(r, protocol.ErrNotAcquired)
	<-r.Answered
	switch {
	case r.Err != nil:
	case r.Do == wait.Acquire:
		e.ReleaseAsync(r.Hold)
	case acquires(r):
		_, _ = e.Count(context.Background(), r.Address, r.Address.Kind.Counting.Give, r.Number, false)
	}
}

// acquire makes the request for an acquire. If the engine is closing or ctx has ended, acquire returns an error instead.
func (e *Engine) acquire(ctx context.Context, a *lease.Address, s wait.AcquireSpec, hold *lease.Hold) (*wait.Request, error) {
	r := e.requests.take(wait.Acquire, a)
	r.Owner, r.Terms, r.Try, r.Hold, r.Backoff = s.Owner, s.Terms, s.Try, hold, s.Backoff
	e.asks(ctx, r)
	if e.closing.Load() {
		r.Err = r.Because(protocol.ErrClosed)
	} else if err := ctx.Err(); err != nil {
		r.Err = r.Because(fmt.Errorf("%w: %w", protocol.ErrNotAcquired, err))
	}
	if r.Err == nil {
		return r, nil
	}
	e.ends(r)
	err := r.Err
	e.requests.put(r)
	return nil, err
}

// endAfter sets a timer that cancels a sent request after d.
func (e *Engine) endAfter(d time.Duration, r *wait.Request) clock.Timer {
	return e.clock.AfterFunc(d, func() { e.Cancel(r, protocol.ErrNotAcquired) })
}

// await waits for the answer to a sent request. Every sent request is answered, even while the engine ends, because no actor stops before it has
// answered all its requests. If ctx ends first, await cancels the request after the time `grace`. Then await still waits for the answer, because the
// actor of the lock may have granted the request already.
//
// The caller sets recycle only if nothing but ctx can cancel the request. Then, if the answer comes before ctx ends, nothing refers to the request
// any more, and await returns it to the pool.
func (e *Engine) await(ctx context.Context, r *wait.Request, grace time.Duration, recycle bool) (number int64, err error) {
	select {
	case <-r.Answered:
	case <-ctx.Done():
		select {
		case <-r.Answered: // the answer counts, although ctx has ended as well
		default:
			recycle = false
			if grace == 0 {
				e.Cancel(r, ctx.Err())
			} else {
				timer := e.clock.AfterFunc(grace, func() { e.Cancel(r, ctx.Err()) })
				defer timer.Stop()
			}
			<-r.Answered
		}
	}
	number, err = r.Number, r.Err
	if recycle {
		e.requests.put(r)
	}
	return number, err
}

// answer delivers the answer to a request. After that, the request belongs to its requester, and the actor of the lock must not touch it.
func (e *Engine) answer(r *wait.Request) {
	e.ends(r)
	switch {
	case r.Requester != nil:
		e.api.Answer(r)
	case r.Notify != nil:
		r.Notify(r)
	default:
		r.Answered <- struct{}{}
	}
}

// AcquireAsync asks for the lock and calls notify once, with the outcome. notify must not block: it may run on the goroutine of an actor, or within
// the call of AcquireAsync. AcquireAsync returns the request, or nil if it has sent none. The caller may cancel the request. As soon as the caller
// knows the outcome, it must call stop, which stops the timer and the watch on ctx.
func (e *Engine) AcquireAsync(ctx context.Context, a *lease.Address, s wait.AcquireSpec, hold *lease.Hold, notify func(error)) (r *wait.Request, stop func()) {
	r, err := e.acquire(ctx, a, s, hold)
	if err != nil {
		notify(err)
		return nil, func() {}
	}
	r.Answered = nil
	r.Notify = func(r *wait.Request) { notify(r.Err) }
	e.registry.request(r)
	unhook := context.AfterFunc(ctx, func() { e.Cancel(r, ctx.Err()) })
	stop = func() { lease.CallSafely(func() { unhook() }) }
	if s.Wait > 0 {
		timer, unbound := e.endAfter(s.Wait, r), stop
		stop = func() { unbound(); timer.Stop() }
	}
	return r, stop
}

// Cancel makes a request stop waiting. The request is still answered exactly once.
func (e *Engine) Cancel(r *wait.Request, cause error) {
	e.registry.tell(r.Address, wait.CancelRequest{Request: r, Cause: cause})
}

// releaseGrace is the time for which a release waits for Redis after its context has ended.
const releaseGrace = 500 * time.Millisecond

// Release ends a hold. It sends the release request even if ctx has ended. After the end of ctx, Release waits for the answer for at most
// releaseGrace.
func (e *Engine) Release(ctx context.Context, h *lease.Hold) error {
	mine := lasts(ctx) // before claim, because lasts panics if ctx is nil: a panic after the claim would leave a hold that nobody can release
	r, err := e.claim(h)
	if r == nil {
		return err
	}
	if mine {
		r.Offer.Make()
	}
	h.Grant.Actor.Send(r)
	e.sendLeft(r)
	_, err = e.await(ctx, r, releaseGrace, true)
	return err
}

// StartRelease starts a Release and does not block. The returned function waits for the answer.
func (e *Engine) StartRelease(h *lease.Hold) (await func(ctx context.Context) error) {
	r, err := e.claim(h)
	if r == nil {
		return func(context.Context) error { return err }
	}
	h.Grant.Actor.Send(r)
	return func(ctx context.Context) error {
		_, err := e.await(ctx, r, releaseGrace, true)
		return err
	}
}

// ReleaseAsync ends a hold without waiting for the answer.
func (e *Engine) ReleaseAsync(h *lease.Hold) {
	if r, _ := e.claim(h); r != nil {
		e.releaseAsync(r)
	}
}

func (e *Engine) releaseAsync(r *wait.Request) {
	r.Answered, r.Notify = nil, func(*wait.Request) {}
	r.Hold.Grant.Actor.Send(r)
}

// claim ends the hold and makes the release request, which the caller must send to the actor of the lock. If the hold has already ended, claim
// returns no request, and its error says how the hold ended. If Close ended the hold, claim returns neither a request nor an error.
func (e *Engine) claim(h *lease.Hold) (*wait.Request, error) {
	if h.Claim() {
		r := e.requests.take(wait.Release, h.Grant.Address)
		r.Hold = h
		return r, nil
	}
	if h.Err() == protocol.ErrClosed { //nolint:errorlint // Close sets this very value
		return nil, nil
	}
	return nil, fmt.Errorf("holdfast: release %q: %w", h.Grant.Address.Name, h.Reason())
}

// Extend makes a fixed lease end at now + d.
func (e *Engine) Extend(ctx context.Context, h *lease.Hold, d time.Duration) error {
	return e.StartExtend(h, d)(ctx)
}

// StartExtend starts an Extend and does not block. The returned function waits for the answer.
func (e *Engine) StartExtend(h *lease.Hold, d time.Duration) (await func(ctx context.Context) error) {
	return e.startExtend(h, d, wait.Terms{Lease: d})
}

// StartAtLeast starts an operation that keeps others from acquiring the lock for at least d from now, even if the hold ends sooner. It does not
// block. The returned function waits for the answer.
func (e *Engine) StartAtLeast(h *lease.Hold, d time.Duration) (await func(ctx context.Context) error) {
	return e.startExtend(h, d, wait.Terms{AtLeast: d})
}

func (e *Engine) startExtend(h *lease.Hold, d time.Duration, terms wait.Terms) (await func(ctx context.Context) error) {
	a := h.Grant.Address
	if err := cmp.Or(lease.Check("lease", d), h.Reason()); err != nil {
		return func(context.Context) error { return fmt.Errorf("holdfast: extend %q: %w", a.Name, err) }
	}
	r := e.requests.take(wait.Extend, a)
	r.Hold, r.Terms = h, terms
	e.registry.request(r)
	return func(ctx context.Context) error {
		_, err := e.await(ctx, r, 0, true)
		return err
	}
}

// Between is called between two steps of one operation, for example between acquiring one member of a multi lock and acquiring the next. Only
// simulations need it, because a simulation must not execute two steps at the same instant.
func (e *Engine) Between(ctx context.Context) {
	if e.between != nil {
		e.between(ctx)
	}
}

// Jitter returns a random time of at least 0 and less than d.
func (e *Engine) Jitter(d time.Duration) time.Duration { return e.policy.Jitter(d) }

// asks reports an acquire to the recorder (package trace) before the request is sent. Other requests are not reported.
func (e *Engine) asks(ctx context.Context, r *wait.Request) {
	if acquires(r) {
		r.Span = e.recorder.Asked(ctx, trace.Acquiring{Kind: r.Address.Kind.Name, Name: r.Address.Name, Try: r.Try})
	}
}

func acquires(r *wait.Request) bool {
	return r.Do == wait.Acquire || r.Do == wait.Count && r.Count.Way == scripts.Take
}

// TellLeader reports the beginning or end of an election term to the user's Trace.
func (e *Engine) TellLeader(c trace.LeaderChange) { e.recorder.Leader(c) }

// Safely calls a function of the user, and reports its panic by a CallbackPanicked event.
func (e *Engine) Safely(f func()) { e.recorder.Safely(f) }

// Warn logs a message in the same way as an event: even if the logger blocks or panics, the caller is not affected.
func (e *Engine) Warn(message string, attrs ...slog.Attr) { e.events.Warn(message, attrs...) }

// ends reports the outcome of an acquire or a release to the recorder, just before the requester gets the answer.
func (e *Engine) ends(r *wait.Request) {
	switch {
	case acquires(r):
		a := trace.Acquired{
			Kind: r.Address.Kind.Name, Name: r.Address.Name, Attempts: r.Attempts, Local: r.Attempts == 0 && r.Err == nil, Err: r.Err,
		}
		leased := r.Hold != nil && r.Err == nil
		if leased {
			a.ID, a.Token = r.Hold.Grant.ID, r.Hold.Token
		}
		e.recorder.Outcome(r.Span, a, leased)
	case r.Do == wait.Release && r.Hold != nil:
		e.recorder.Released(r.Hold, r.Err)
	}
}

// requestPool keeps the answered requests of goroutines for reuse. Each engine has its own pool: a request contains a channel, and a channel must
// not be used outside the testing/synctest bubble in which it was made.
type requestPool struct{ pool sync.Pool }

// take returns a request for a goroutine.
func (p *requestPool) take(do wait.Operation, address *lease.Address) *wait.Request {
	r, _ := p.pool.Get().(*wait.Request)
	if r == nil {
		r = &wait.Request{Answered: make(chan struct{}, 1)}
	}
	r.Do, r.Address = do, address
	return r
}

// put returns an answered request to the pool. A request that a timer or a context may still cancel must not be put back: the cancel would
// end another caller's request.
func (p *requestPool) put(r *wait.Request) {
	*r = wait.Request{Answered: r.Answered}
	p.pool.Put(r)
}
