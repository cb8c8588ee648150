// Package trace tells the user what happens in a runtime: it calls the functions of a Trace, and keeps the counters of Stats.
//
// The engine, the watchdog, the gateways and the subscriber call a Recorder. It calls the user's functions, and reports their panics as events.
package trace

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

// Trace has functions that are called when something happens in a runtime. A function that is nil costs only a comparison.
//
// The functions run inside the runtime, mostly on the goroutines of its actors and pipelines. They must be fast, because each of them delays the
// goroutine that calls it. They must not call the runtime, block, or end their goroutine. A panic is recovered and reported by a CallbackPanicked
// event. Fields may be added to Trace.
type Trace struct {
	// Acquiring is called before an acquire begins, on the caller's goroutine and with the caller's context. For an acquire by message it is
	// called on the goroutine of an actor of the runtime, with an empty context. If it returns a function, that function is called once with the
	// outcome, before the caller learns the outcome.
	//
	// Each member of a multi lock is an acquire of its own. Acquires of permits of a Semaphore are also reported. An acquire with an invalid name
	// or options is not reported, because it never begins.
	Acquiring func(ctx context.Context, a Acquiring) func(Acquired)
	// Waiting is called once for an acquire that has waited longer than Options.SlowWait, with the context that Acquiring got.
	Waiting func(ctx context.Context, w protocol.Waiting)
	// Released is called when a holder has released its lease, with the error that Release returns. It is also called when the runtime releases a
	// lease because the actor that holds it has ended, or because the program has dropped the lease. (Dropped leases that were acquired WithLease are
	// not released.) When a release hands the lock on to a waiter in the same process, the outcome of that waiter's acquire may be reported before
	// Released is called.
	Released func(r Released)
	// Lost is called when a lease has ended without its holder's release. For each lease either Released or Lost is called, once.
	Lost func(l Lost)
	// Renewed is called after each script that renews leases, even if the script failed. It is not called for a script that has to be split because a
	// cluster is moving some of the script's keys.
	Renewed func(r Renewed)
	// Exchanged is called after each pipeline of scripts.
	Exchanged func(x Exchanged)
	// Leader is called when this process begins to lead an election, and when it no longer leads. It runs on the election's goroutines.
	Leader func(c LeaderChange)
}

// Acquiring says that an acquire begins.
type Acquiring struct {
	Kind protocol.Kind
	Name string
	Try  bool
}

// Acquired is the outcome of an acquire.
type Acquired struct {
	Kind     protocol.Kind
	Name, ID string        // ID is that of the lease, or "" if there is none
	Waited   time.Duration // time from the call to the outcome
	Local    bool          // granted without a call to Redis: handed on inside the process, or re-entered
	Attempts int           // number of calls to Redis for this acquire
	Token    int64
	Err      error // nil if the lock was acquired
}

// Released describes the end of a lease that was released.
type Released struct {
	Kind     protocol.Kind
	Name, ID string
	Held     time.Duration // time from the grant to the reply to the release
	Err      error         // what Release returns
}

// Lost describes the end of a lease that its holder did not release.
type Lost struct {
	Kind     protocol.Kind
	Name, ID string
	Held     time.Duration
	Reason   protocol.LossReason
	Fixed    bool // acquired WithLease
}

// Renewed describes one script that was to renew leases.
type Renewed struct {
	Leases int           // leases that were to be renewed
	Gone   int           // leases among them that Redis does not have any more
	Margin time.Duration // the least time that any of the leases had left when the answer came; negative if one had expired
	Took   time.Duration
	Err    error // why no lease was renewed, or nil; the runtime repeats a failed renewal
}

// Exchanged is one pipeline of scripts.
type Exchanged struct {
	Scripts int // scripts in it
	Locks   int // number of names that the scripts are about; one renewal script is about many
	Took    time.Duration
	Err     error // set if the connection broke; otherwise each script has its own reply
}

// LeaderChange is the beginning or the end of a term of this process as leader.
type LeaderChange struct {
	Name    string // of the election
	Leading bool   // the term begins; otherwise it has ended
	Token   int64  // of the term
}

// Stats counts the events in a runtime since New, and the leases, waiters and actors that it has now.
type Stats struct {
	Held      int // leases
	Waiting   int // acquires without an outcome
	Lingering int // leases that are kept for the next local acquire: Options.Linger
	Actors    int // names that have an actor; actors without a name (spares) are not counted

	Acquired      uint64 // acquires with a lease, or with permits of a Semaphore
	HandedOn      uint64 // those of Acquired that needed no call to Redis: handed on inside the process, or re-entered
	Refused       uint64 // acquires that ended with an error; one with an invalid name or option is not counted, because it never begins
	Released      uint64 // leases that their holders ended, whatever the outcome
	Lost          uint64 // leases that ended without their holder's release
	Renewals      uint64 // successful renewals of leases
	RenewFailures uint64 // failed renewals of leases; they are repeated
	Exchanges     uint64 // pipelines of scripts
	Scripts       uint64 // scripts in these pipelines
	Reconnects    uint64 // times that lost or refused subscriptions were restored
}
