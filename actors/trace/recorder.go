package trace

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
)

// Recorder keeps the counters for Stats, and calls the functions of the user's Trace.
type Recorder struct {
	clock clock.Clock
	trace Trace // the user's functions; those that are nil are not called
	emit  func(protocol.Event)

	asked, acquired, permits, handedOn, refused, released, lost atomic.Uint64
	renewals, renewFailures, exchanges, scripts, reconnects     atomic.Uint64
	lingering                                                   atomic.Int64
}

// New makes a Recorder. trace may be nil. emit is called to report a panic of one of trace's functions.
func New(of clock.Clock, trace *Trace, emit func(protocol.Event)) *Recorder {
	r := &Recorder{clock: of, emit: emit}
	if trace != nil {
		r.trace = *trace
	}
	return r
}

// Span is an acquire that is reported to Trace.
type Span struct {
	ctx   context.Context
	done  func(Acquired)
	began time.Duration
}

// Asked notes an acquire before it is sent. For each call of Asked, the caller must later call Outcome once. The span is nil if Trace has neither an
// Acquiring nor a Waiting function.
func (t *Recorder) Asked(ctx context.Context, a Acquiring) *Span {
	t.asked.Add(1)
	if t.trace.Acquiring == nil && t.trace.Waiting == nil {
		return nil
	}
	s := &Span{ctx: ctx, began: t.clock.Now()}
	if f := t.trace.Acquiring; f != nil {
		t.Safely(func() { s.done = f(ctx, a) })
	}
	return s
}

// Outcome notes the outcome of an acquire, just before its caller learns of it. The recorder fills in Waited. leased is true if the acquire
// got a lease.
func (t *Recorder) Outcome(s *Span, a Acquired, leased bool) {
	if a.Err != nil {
		t.refused.Add(1)
	} else {
		t.acquired.Add(1)
		if a.Local {
			t.handedOn.Add(1)
		}
		if !leased {
			t.permits.Add(1)
		}
	}
	if s != nil && s.done != nil {
		a.Waited = t.clock.Now() - s.began
		t.Safely(func() { s.done(a) })
	}
}

// Waiting reports an acquire that has waited for a long time.
func (t *Recorder) Waiting(s *Span, w protocol.Waiting) {
	if s != nil && t.trace.Waiting != nil {
		t.Safely(func() { t.trace.Waiting(s.ctx, w) })
	}
}

// Released notes that a holder has ended its hold.
func (t *Recorder) Released(h *lease.Hold, err error) {
	t.released.Add(1)
	if f := t.trace.Released; f != nil {
		a := h.Address()
		t.Safely(func() {
			f(Released{Kind: a.Kind.Name, Name: a.Name, ID: h.Grant.ID, Held: t.clock.Now() - h.Since, Err: err})
		})
	}
}

// Lost notes that a hold has ended without a release by its holder.
func (t *Recorder) Lost(h *lease.Hold) {
	t.lost.Add(1)
	f := t.trace.Lost
	if f == nil {
		return
	}
	reason := protocol.LossReason(h.Why())
	if errors.Is(h.Err(), protocol.ErrClosed) {
		reason = protocol.LossClosed
	}
	a := h.Address()
	t.Safely(func() {
		f(Lost{Kind: a.Kind.Name, Name: a.Name, ID: h.Grant.ID, Held: t.clock.Now() - h.Since, Reason: reason, Fixed: h.Fixed()})
	})
}

// Renewed notes the outcome of one renewal script.
func (t *Recorder) Renewed(r Renewed) {
	if r.Err == nil {
		t.renewals.Add(uint64(r.Leases - r.Gone)) //nolint:gosec // never negative: Gone counts some of these Leases
	} else {
		t.renewFailures.Add(uint64(r.Leases)) //nolint:gosec // a length
	}
	if f := t.trace.Renewed; f != nil {
		t.Safely(func() { f(r) })
	}
}

// Exchanged notes the end of one pipeline, which was sent at the instant `began`. The function `locks` returns the number of names in the pipeline.
// It is called only if Trace has an Exchanged function.
func (t *Recorder) Exchanged(calls int, began time.Duration, err error, locks func() int) {
	t.exchanges.Add(1)
	t.scripts.Add(uint64(calls)) //nolint:gosec // a length
	if f := t.trace.Exchanged; f != nil {
		x := Exchanged{Scripts: calls, Locks: locks(), Took: t.clock.Now() - began, Err: err}
		t.Safely(func() { f(x) })
	}
}

// Leader reports the beginning or the end of a term of this process as the leader of an election.
func (t *Recorder) Leader(c LeaderChange) {
	if f := t.trace.Leader; f != nil {
		t.Safely(func() { f(c) })
	}
}

// Linger adds to the number of grants that linger.
func (t *Recorder) Linger(more int) { t.lingering.Add(int64(more)) }

// Reconnected notes that lost or refused subscriptions have been restored.
func (t *Recorder) Reconnected() { t.reconnects.Add(1) }

// Stats reads the counters in such an order that Held and Waiting, which are differences of counters, are never negative. For example, it reads the
// number of releases before the number of acquires.
func (t *Recorder) Stats() Stats {
	s := Stats{
		Lost: t.lost.Load(), Released: t.released.Load(), Refused: t.refused.Load(), HandedOn: t.handedOn.Load(),
		Renewals: t.renewals.Load(), RenewFailures: t.renewFailures.Load(),
		Exchanges: t.exchanges.Load(), Scripts: t.scripts.Load(), Reconnects: t.reconnects.Load(),
	}
	s.Lingering = int(t.lingering.Load())
	permits := t.permits.Load()
	s.Acquired = t.acquired.Load()
	asked := t.asked.Load()
	s.Held = int(s.Acquired - permits - s.Released - s.Lost) //nolint:gosec // few enough
	s.Waiting = int(asked - s.Acquired - s.Refused)          //nolint:gosec // few enough
	return s
}

// Safely calls a function of the user, and reports its panic.
func (t *Recorder) Safely(f func()) {
	defer func() {
		if value := recover(); value != nil {
			t.emit(protocol.CallbackPanicked{Value: value})
		}
	}()
	f()
}
