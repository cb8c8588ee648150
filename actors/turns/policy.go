package turns

import "time"

// Policy holds the times that decisions about turns depend on.
type Policy struct {
	GapEvery  time.Duration // interval of gaps if a process has no competitor
	GapShared time.Duration // interval of gaps if processes compete; when two processes alternate, less than one wait in a hundred meets a gap

	Jitter     func(time.Duration) time.Duration // returns a random time of at least 0 and less than its argument
	ServerTime func(time.Duration) time.Duration // converts an instant of this process to the server's time
}

// WithTimes fills in the fixed times.
func (p Policy) WithTimes() Policy {
	p.GapEvery = time.Second
	p.GapShared = 3 * time.Second / 2
	return p
}
