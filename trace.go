package holdfast

import (
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/actors/trace"
)

// Trace has functions that are called when something happens in a runtime; see Options.Trace. Those that are nil are not called. The fields:
//
//   - Acquiring func(context.Context, Acquiring) func(Acquired): an acquire begins; a function that Acquiring returns is called with the outcome
//   - Waiting func(context.Context, Waiting): an acquire has waited longer than Options.SlowWait
//   - Released func(Released), Lost func(Lost): a lease has ended; each lease is reported to exactly one of these two
//   - Renewed func(Renewed): leases were renewed, or a renewal failed
//   - Exchanged func(Exchanged): a pipeline was sent to Redis and answered, or failed
//   - Leader func(LeaderChange): this process begins or ceases to lead an election
//
// Acquiring runs on the caller's goroutine, except for an acquire by message. The other functions may run on a goroutine of the runtime or of any
// caller. All must be fast, because they delay the lock. They must not call the runtime, block, or end their goroutine. A panic is recovered and
// reported by a CallbackPanicked event. Fields may be added. See [trace.Trace].
type Trace = trace.Trace

// The arguments of the functions of a Trace. Each is a struct; fields may be added.
type (
	// Acquiring says that an acquire begins. Fields: Kind, Name and Try. See [trace.Acquiring].
	Acquiring = trace.Acquiring
	// Acquired is the outcome of an acquire. Fields: Kind, Name, ID (of the lease), Token (of the lease), Waited (for how long), Local (whether it was
	// granted without a call to Redis), Attempts (the number of calls to Redis) and Err (nil if the lock was acquired). See [trace.Acquired].
	Acquired = trace.Acquired
	// Released says that a holder has released its lease. Fields: Kind, Name, ID, Held (for how long) and Err (of Release). See [trace.Released].
	Released = trace.Released
	// Lost says that a lease ended without a release. Fields: Kind, Name, ID, Held (for how long), Reason and Fixed (whether it was acquired with
	// WithLease). See [trace.Lost].
	Lost = trace.Lost
	// Renewed describes one call to Redis that renewed leases or failed to. Fields: Leases (the number of leases in the call), Gone (how many of
	// them Redis no longer had), Margin (the shortest time that any of them had left), Took and Err. See [trace.Renewed].
	Renewed = trace.Renewed
	// Exchanged describes one pipeline of calls to Redis. Fields: Scripts (the number of scripts), Locks (the number of names that the scripts are
	// about), Took and Err. See [trace.Exchanged].
	Exchanged = trace.Exchanged
	// LeaderChange says that this process begins to lead an election, or no longer leads. Fields: Name, Leading and Token. See
	// [trace.LeaderChange].
	LeaderChange = trace.LeaderChange
)

// Stats has counts of what has happened since New: Acquired, HandedOn (acquires granted without a call to Redis), Refused, Released, Lost, Renewals,
// RenewFailures, Exchanges, Scripts and Reconnects. It also has four current numbers: Held (leases), Waiting (acquires), Lingering (released leases
// that are kept for the next acquire of this process) and Actors (one for each name in use). See [trace.Stats].
type Stats = trace.Stats

// Stats reads the counters of this runtime. It is cheap, and may be called at any time, even after Close.
func (rt *Runtime) Stats() Stats { return rt.engine.Stats() }

// HeldLease is a lease that a runtime holds.
type HeldLease struct {
	Kind      Kind
	Name, ID  string
	Owner     string // the owner set by WithOwner, ContextWithOwner or Do, or "" if there is none
	Since     time.Time
	ExpiresAt time.Time // the local deadline, which renewals move
	Waiting   int       // acquires of this process that wait for the lock
}

// Held yields the leases that this runtime holds at this moment, in no particular order. For a multi lock it yields the lease of each member. It
// asks the actor of each name, so it is for people and debug pages, not for hot paths. After Close it yields nothing.
func (rt *Runtime) Held() iter.Seq[HeldLease] {
	return func(yield func(HeldLease) bool) {
		for held := range rt.engine.Held() {
			for _, h := range held.Holds {
				a := h.Address()
				l := HeldLease{
					Kind: a.Kind.Name, Name: a.Name, ID: h.Grant.ID, Since: rt.engine.Time(h.Since), Waiting: held.Waiting,
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
