package turns

import "time"

// Policy is what turns are decided by.
type Policy struct {
	Gap        time.Duration // a lock that is wanted all the time is left free this long, for clients that only poll
	GapEvery   time.Duration // how often by a process that is alone with them
	GapShared  time.Duration // how often by several processes together: not one wait in a hundred where two alternate
	ClockError time.Duration // by how much they may misjudge the server's time for that
	YieldMax   time.Duration // the longest time to stay out after a turn

	Jitter     func(time.Duration) time.Duration // random, from 0 to below its argument
	ServerTime func(time.Duration) time.Duration // the server's clock at an instant of ours
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
