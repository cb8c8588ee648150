package turns

import "time"

// Policy holds the times that decisions about turns depend on.
type Policy struct {
	Gap        time.Duration // the time for which a lock in constant demand is left free for clients that poll
	GapEvery   time.Duration // interval of gaps if a process has no competitor
	GapShared  time.Duration // interval of gaps if processes compete; when two processes alternate, less than one wait in a hundred meets a gap
	ClockError time.Duration // the largest error of a process's estimate of the server's time
	YieldMax   time.Duration // the longest that the slots of all processes ahead last together, unless patience or slotMin makes them longer

	Jitter     func(time.Duration) time.Duration // returns a random time of at least 0 and less than its argument
	ServerTime func(time.Duration) time.Duration // converts an instant of this process to the server's time
}

// WithTimes fills in the fixed times.
func (p Policy) WithTimes() Policy {
	p.Gap = 25 * time.Millisecond
	p.GapEvery = time.Second
	p.GapShared = 3 * time.Second / 2
	p.ClockError = 1500 * time.Microsecond
	p.YieldMax = 50 * time.Millisecond
	return p
}
