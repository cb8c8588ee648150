package actors

import (
	"time"
)

// Policy is what a lock actor decides by: the user's options and the fixed times behind them.
type Policy struct {
	Lease      time.Duration // of a watchdog lease
	HandoffMax int           // holders per turn
	HandoffFor time.Duration // length of a turn
	MaxWaiters int
	Runtime    string // what the ids of our grants begin with

	Counts bool // there is one server, so whoever tells of a release learns of all who wait for it

	AckReplicas int           // that must acknowledge a grant
	AckTimeout  time.Duration // how long they are waited for

	Patience   time.Duration // waiters are refused with the cause when no attempt has been answered for this long
	ProbeMax   time.Duration // longest pause between two attempts to reach Redis
	PollCap    time.Duration // longest wait between two attempts while the lock is taken
	Linger     time.Duration // a channel is kept this long after its last waiter
	Gap        time.Duration // a lock that is wanted all the time is left free this long, for those who only poll
	GapEvery   time.Duration // how often by a process that is alone with them
	GapShared  time.Duration // how often by several together: not one wait in a hundred where two alternate
	ClockError time.Duration // by how much they may misjudge the server's time for that
	YieldMax   time.Duration // longest stay-out after a turn

	GiveFor time.Duration // what was given back is tried to be confirmed for this long
	Keep    time.Duration // Redis keeps the results of requests without an owner for this long, for their repeats
	Want    time.Duration // after this long a waiter for several permits reserves them, for twice as long each time
	WantMax time.Duration // longest reservation

	NewID      func() string                     // of a grant; never the same twice
	Serial     func() uint64                     // of a lease; never the same twice
	Jitter     func(time.Duration) time.Duration // random, from 0 to below its argument
	ServerTime func(time.Duration) time.Duration // the server's clock at an instant of ours
	Why        func(raw string) error            // why there is no answer about a name yet
}

// withTimes fills in the fixed times, which follow from the lease.
func (p Policy) withTimes() Policy {
	p.Patience = max(time.Second, min(p.Lease/3, 10*time.Second))
	p.ProbeMax = max(10*time.Millisecond, min(p.Lease/30, time.Second))
	p.PollCap = time.Second
	p.Linger = 20 * time.Millisecond
	p.Gap = 25 * time.Millisecond
	p.GapEvery = time.Second
	p.GapShared = 3 * time.Second / 2
	p.ClockError = 1500 * time.Microsecond
	p.YieldMax = 50 * time.Millisecond
	p.Why = func(string) error { return errNoAnswerYet }
	p.GiveFor = 30 * time.Second
	p.Keep = p.Patience + p.GiveFor + 10*time.Second // longer than a request and the undoing of it can take together
	p.Want = 100 * time.Millisecond
	p.WantMax = 30 * time.Second
	return p
}

// Window is how long one attempt for this lease may take before its outcome counts as unknown.
func Window(lease time.Duration) time.Duration { return min(lease/3, 2*time.Second) }

// backoff is how long to wait after this many failures in a row: doubling from 10 ms to 1 s, with full jitter
// (M. Brooker, "Exponential Backoff And Jitter", 2015) so that an outage does not end in a storm.
func (p *Policy) backoff(failures int) time.Duration {
	step := min(10*time.Millisecond<<min(failures, 7), time.Second)
	return time.Millisecond + p.Jitter(step)
}

// spread is when one of so many waiters that have reason to try again at the same instant does it: ten of them in a millisecond.
func (p *Policy) spread(waiters int) time.Duration {
	return p.Jitter(min(time.Duration(waiters)*100*time.Microsecond, p.PollCap/2) + 1)
}

// haunting is how long to wait after a release of a ghost that may not be the last, and was not the first after so many: doubling,
// so that a copy of its acquire that comes late is found after about as long again, with few releases made in vain.
func (p *Policy) haunting(releases int) time.Duration {
	step := 25 * time.Millisecond << min(releases, 6)
	return step + p.Jitter(step)
}
