package wait

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/turns"
)

// Policy is the user's options, and the fixed times that follow from them, for the decisions of the machines.
type Policy struct {
	Lease      time.Duration // length of a watchdog lease
	HandoffMax int           // holders per turn
	HandoffFor time.Duration // length of a turn
	Linger     time.Duration // a released grant is kept for the next local holder for this long; 0: it is not kept
	MaxWaiters int
	SlowWait   time.Duration // a waiter that waits longer than this is reported; 0: no waiter is
	Runtime    string        // the UUID with which the ids of our grants begin

	Counts bool // there is a single server, so the reply to a release counts all subscribers

	AckReplicas int           // how many replicas must acknowledge a grant
	AckTimeout  time.Duration // the longest wait for them

	Patience    time.Duration // waiters are refused with the cause when no attempt has been answered for this long
	ProbeMax    time.Duration // longest pause between two attempts to reach Redis
	PollCap     time.Duration // longest wait between two attempts while the lock is taken
	KeepChannel time.Duration // a channel stays subscribed this long after its last waiter
	turns.Policy

	GiveFor time.Duration // for this long the return of permits is repeated until it is confirmed
	Keep    time.Duration // Redis keeps the results of requests without an owner for this long, for their repeats
	Want    time.Duration // after this long a waiter for several permits reserves them, for twice as long each time
	WantMax time.Duration // longest reservation

	NewID  func() string          // makes the id of a grant; never the same twice
	Serial func() uint64          // makes the serial number of a lease; never the same twice
	Why    func(raw string) error // the error if no server has answered about a name yet
}

// WithTimes fills in the fixed times, which follow from the lease.
func (p Policy) WithTimes() Policy {
	p.Patience = max(time.Second, min(p.Lease/3, 10*time.Second))
	p.ProbeMax = max(10*time.Millisecond, min(p.Lease/30, time.Second))
	p.PollCap = time.Second
	p.KeepChannel = 20 * time.Millisecond
	p.Policy = p.Policy.WithTimes()
	p.Why = func(string) error { return rpc.ErrNoAnswerYet }
	p.GiveFor = 30 * time.Second
	p.Keep = p.Patience + p.GiveFor + 10*time.Second // longer than a request and the undoing of it can take together
	p.Want = 100 * time.Millisecond
	p.WantMax = 30 * time.Second
	return p
}

// Backoff is the pause after this many failures in a row. It doubles from 10 ms to 1 s, with full jitter (M. Brooker, "Exponential Backoff
// And Jitter", 2015), so that an outage does not end in a storm.
func (p *Policy) Backoff(failures int) time.Duration {
	step := min(10*time.Millisecond<<min(failures, 7), time.Second)
	return time.Millisecond + p.Jitter(step)
}

// Pause is the pause before the next attempt to reach Redis.
func (p *Policy) Pause(failures int) time.Duration { return min(p.Backoff(failures), p.ProbeMax) }

// Spread is a random delay for one of several waiters that all have a reason to try at the same instant: ten of them try per millisecond.
func (p *Policy) Spread(waiters int) time.Duration {
	return p.Jitter(min(time.Duration(waiters)*100*time.Microsecond, p.PollCap/2) + 1)
}

// OrphanPause is the pause after this many releases of an orphan that may not have been the last. It doubles, so that few releases are in
// vain. A late copy of the acquire then holds the lock for about as long as it was late.
func (p *Policy) OrphanPause(releases int) time.Duration {
	step := 25 * time.Millisecond << min(releases, 6)
	return step + p.Jitter(step)
}
