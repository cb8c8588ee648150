package holdfast

import (
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/actors/trace"
)

// Trace has functions that are called when something happens in a runtime; see Options.Trace. Those that are nil are not called.
//
// They run inside the runtime, most of them on the goroutines of actors. They must be fast: while one runs, its lock waits. They must not
// call the runtime, block, or end their goroutine. A panic is recovered and reported by a CallbackPanicked event. Fields may be added.
type Trace = trace.Trace

// What the functions of a Trace are told. Fields may be added.
type (
	// Acquiring: an acquire begins.
	Acquiring = trace.Acquiring
	// Acquired: the outcome of an acquire.
	Acquired = trace.Acquired
	// Released: a lease was ended by its holder.
	Released = trace.Released
	// Lost: a lease ended otherwise.
	Lost = trace.Lost
	// Renewed: one renewal script.
	Renewed = trace.Renewed
	// Exchanged: one pipeline of scripts.
	Exchanged = trace.Exchanged
	// LeaderChange: this process begins to lead, or no longer leads.
	LeaderChange = trace.LeaderChange
)

// Stats counts what has happened in a runtime since New, and what there is now.
type Stats = trace.Stats

// Stats reads the counters of this runtime. It is cheap, and may be called any time, also after Close.
func (rt *Runtime) Stats() Stats { return rt.engine.Stats() }

// HeldLease is a lease that a runtime holds.
type HeldLease struct {
	Kind      Kind
	Name, ID  string
	Owner     string // that of WithOwner or Do; "": there is none
	Since     time.Time
	ExpiresAt time.Time // the local deadline, which renewals move
	Waiting   int       // acquires of this process that wait for the lock
}

// Held yields what this runtime holds at this moment, in no order; the members of a multi lock one by one. It asks the actor of each name,
// so it is for people and debug pages, not for hot paths. After Close it yields nothing.
func (rt *Runtime) Held() iter.Seq[HeldLease] {
	return func(yield func(HeldLease) bool) {
		for held := range rt.engine.Held() {
			for _, h := range held.Holds {
				a := h.Address()
				l := HeldLease{
					Kind: a.Kind.Name, Name: a.Name, ID: h.ID(), Since: rt.engine.Time(h.Since), Waiting: held.Waiting,
				}
				if !h.Owner.IsZero() {
					l.Owner = h.Owner.String()
				}
				until := h.Until()
				if until == 0 {
					continue // it has ended since
				}
				if l.ExpiresAt = rt.engine.Time(until); !yield(l) {
					return
				}
			}
		}
	}
}
