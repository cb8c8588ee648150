package lease

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/timerwheel"
)

// Grant is one acquisition in Redis. The lock actor makes it and ends it; the watchdog moves its deadline; holders read the deadline.
type Grant struct {
	// fixed at construction
	Address *Address
	ID      string        // the owner field in Redis
	Lease   time.Duration // the length of the lease; the method Renewal returns the TTL that a renewal sets
	Watched bool          // renewed by the watchdog; otherwise a fixed lease
	Most    time.Duration // no renewal extends the lease beyond this instant; 0 if the lease has no such limit
	Actor   Actor         // the lock actor: it gets the releases of the holders, and the watchdog's messages
	Part    any           // what only the lock actor knows about the grant

	// deadline is the instant from which the lease counts as lost, or 0 if the grant is over. Extend moves it by compare-and-swap, so a late
	// renewal cannot revive a grant that has ended.
	deadline atomic.Int64
	// least is the instant before which nobody else may get the lock, even if it is released sooner. It only moves forward.
	least atomic.Int64
	// Suspect is set between a failed renewal and the next successful one. Meanwhile the grant is not handed on.
	Suspect atomic.Bool

	// Tended is set when an actor of the user gets a lease on the grant. Each renewal then checks whether the actor still lives.
	Tended atomic.Bool

	Kept  atomic.Bool              // the watchdog watches it (Keep)
	Timer timerwheel.Timer[*Grant] // in the watchdog's wheel, for the next renewal or the end of a fixed lease
}

// The bounds of a lease, and of the times given to WithAtMost and WithAtLeast.
const (
	Min = 50 * time.Millisecond
	Max = 24 * time.Hour
)

// Check checks a time that the user has given against the bounds. The parameter `what` is the name of that time in the error.
func Check(what string, d time.Duration) error {
	if d < Min || d > Max {
		return fmt.Errorf("%w: %s %v is not between %v and %v", protocol.ErrInvalid, what, d, Min, Max)
	}
	return nil
}

// Margin is subtracted from a lease to get the holder's local deadline: 1 % for different clock rates, and 2 ms for rounding. Implementations of
// Redlock allow as much for clock drift.
func Margin(length time.Duration) time.Duration { return length/100 + 2*time.Millisecond }

// Deadline returns the local deadline of a lease that Redis has granted or renewed. The acquire or renewal was sent at the instant `sent`. The server
// counts the lease from a later instant, so the lease never ends in Redis before the local deadline.
func Deadline(sent, length time.Duration) time.Duration { return sent + length - Margin(length) }

// Actor is the actor of a lock. Send gives it a message, and does not block. The machines only pass the Actor on, and never call Send.
type Actor interface{ Send(message any) }

// Ref names an actor of the user. It is a PID of protoactor. The machines only compare it.
type Ref interface{ GetId() string }

// Begin starts a grant whose fields are set.
func (g *Grant) Begin(deadline time.Duration) {
	g.Timer.Value = g
	g.deadline.Store(int64(deadline))
}

// Move sets the deadline, whatever it was. Only the lock actor may do that.
func (g *Grant) Move(deadline time.Duration) { g.deadline.Store(int64(deadline)) }

// Until returns the deadline, or 0 if the grant is over.
func (g *Grant) Until() time.Duration { return time.Duration(g.deadline.Load()) }

// Left returns the time for which the lease still lasts. It is not positive if the lease is over.
func (g *Grant) Left(now time.Duration) time.Duration { return g.Until() - now }

// End ends the grant: no renewal moves its deadline again, and no holder of it is valid.
func (g *Grant) End() { g.deadline.Store(0) }

// Least returns the instant before which nobody else may get the lock.
func (g *Grant) Least() time.Duration { return time.Duration(g.least.Load()) }

// KeepFor makes sure that nobody else gets the lock for the time d from now. If several holders want that, the latest end counts. Only the lock actor
// may call KeepFor.
func (g *Grant) KeepFor(now, d time.Duration) {
	if d > 0 {
		g.least.Store(int64(max(now+d, g.Least())))
	}
}

// Missing returns for how much longer the lock must stay taken if it is released now (see Least).
func (g *Grant) Missing(now time.Duration) time.Duration { return max(g.Least()-now, 0) }

// Renewal returns the TTL that a renewal at this instant sets. Usually, this is the length of the lease. The TTL is shorter if the lease would
// otherwise last beyond Most. But the TTL always reaches the instant that Least returns, so it may be longer than the lease.
func (g *Grant) Renewal(now time.Duration) time.Duration {
	length := g.Lease
	if g.Most > 0 {
		length = min(length, max(g.Most-now, time.Millisecond))
	}
	return max(length, (g.Missing(now) + time.Millisecond - 1).Truncate(time.Millisecond))
}

// Final reports whether the present deadline counts as the last one: Most is so near that a renewal could move the deadline by no more than the
// margin.
func (g *Grant) Final() bool { return g.Most > 0 && g.Until() >= g.Most-Margin(g.Lease) }

// Extend moves the deadline after a renewal, at most to Most. If the grant had ended, or its deadline had passed before the answer came, Extend
// changes nothing and returns false.
func (g *Grant) Extend(now, deadline time.Duration) bool {
	if g.Most > 0 {
		deadline = min(deadline, g.Most)
	}
	for {
		old := g.deadline.Load()
		if old == 0 || int64(now) >= old {
			return false
		}
		if g.deadline.CompareAndSwap(old, int64(deadline)) {
			return true
		}
	}
}

// The watchdog's messages to the actor of a name.
type (
	// Due asks the machine to watch the grant's deadline. The reason is one of three: the deadline has come, the deadline is final (Grant.Final), or
	// a renewal has failed.
	Due struct{ Grant *Grant }
	// Gone says that Redis does not have the grant any more.
	Gone struct{ Grant *Grant }
	// CountRequesters tells the shell to check whether the actors that wait for the lock or hold leases still exist.
	CountRequesters struct{}
)
