package wait

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/turns"
)

// Policy holds the parameters of the state machines: values from the user's options, and times that users cannot configure.
type Policy struct {
	Lease      time.Duration // length of a watchdog lease
	HandoffMax int           // the most holders in a turn
	HandoffFor time.Duration // after this time, the next release ends the turn
	Linger     time.Duration // the time for which a released grant is kept for the next local holder, or 0 if it is not kept
	MaxWaiters int
	SlowWait   time.Duration // a waiter that has waited this long is reported; 0 means never
	Runtime    string        // the UUID with which the ids of this process's grants begin

	Standalone bool // there is only one server; only then does the reply to a release contain the number of all subscribers

	AckReplicas int           // how many replicas must acknowledge a grant
	AckTimeout  time.Duration // the longest wait for acknowledgements of replicas

	Patience time.Duration // if Redis has not answered for this long, waiters are refused with an error that wraps the cause
	ProbeMax time.Duration // longest pause between two attempts to reach Redis
	turns.Policy

	NewID  func() string          // makes the id of a grant, or of a counter's request; never the same twice
	Serial func() uint64          // makes the serial number of a lease; never the same twice
	Why    func(raw string) error // makes the cause in a wait's error, if no server has answered a call about the name yet
}

const (
	PollCap     = time.Second           // the usual wait until the next attempt, if the lock is taken and no message says that it was released
	KeepChannel = 20 * time.Millisecond // the time for which a channel stays subscribed after its last waiter has left
)

// WithTimes sets the times that users cannot configure, and a default for Why. Some of the times depend on the lease.
func (p Policy) WithTimes() Policy {
	p.Patience = max(time.Second, min(p.Lease/3, 10*time.Second))
	p.ProbeMax = max(10*time.Millisecond, min(p.Lease/30, time.Second))
	p.Policy = p.Policy.WithTimes()
	p.Why = func(string) error { return rpc.ErrNoAnswerYet }
	return p
}

// Backoff returns the pause after the given number of failures in a row. The pause is a random part of a bound (full jitter: M. Brooker, "Exponential
// Backoff And Jitter", 2015), so that clients do not all retry at the same instant after an outage. The bound doubles from 10 ms to 1 s.
func (p *Policy) Backoff(failures int) time.Duration {
	step := min(10*time.Millisecond<<min(failures, 7), time.Second)
	return time.Millisecond + p.Jitter(step)
}

// Pause returns the pause before the next attempt to reach Redis.
func (p *Policy) Pause(failures int) time.Duration { return min(p.Backoff(failures), p.ProbeMax) }

// Spread returns a random delay for one of several waiters that have a reason to try at the same instant. Because of their delays, only about ten of
// them try per millisecond. No delay is longer than half of PollCap: if there are very many waiters, more of them try per millisecond.
func (p *Policy) Spread(waiters int) time.Duration {
	return p.Jitter(min(time.Duration(waiters)*100*time.Microsecond, PollCap/2) + 1)
}

// OrphanPause returns the pause until the next release of an orphan. The orphan is released repeatedly, because a copy of its acquire could still
// arrive. The parameter `releases` is the number of releases that Redis executed before the latest one. The pause doubles with each release, because
// most of these releases find nothing to release. If a late copy does take the lock, the lock stays taken for about as long as the copy was late.
func (p *Policy) OrphanPause(releases int) time.Duration {
	step := 25 * time.Millisecond << min(releases, 6)
	return step + p.Jitter(step)
}
