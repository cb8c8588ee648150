package wait

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/scripts"
)

// Failures counts calls without an answer, in a row.
type Failures struct {
	Count int
	first time.Duration // since when Redis does not answer, if the row had no gaps
	Last  error
}

// Add counts a call. The time for which it waited in line while Redis answered others was no silence.
func (f *Failures) Add(now time.Duration, c *rpc.Call, err error) {
	switch {
	case f.Count > 0:
		f.first += max(c.Since-c.Asked, 0)
	case c.NotAfter == 0: // it was not sent
		f.first = c.Since
	default:
		f.first = now
	}
	f.Count++
	f.Last = scripts.Explain(err)
}

// Silent is for how long Redis has not answered.
func (f *Failures) Silent(now time.Duration) time.Duration {
	if f.Count == 0 {
		return 0
	}
	return now - f.first
}

// Outlast reports whether Redis has not answered for so long while r waited.
func (f *Failures) Outlast(now time.Duration, r *Request, patience time.Duration) bool {
	return f.Count > 0 && now-max(f.first, r.Came) >= patience
}

// Patient is the timing of the next call. It stands in line for what is left of the patience of its callers, or for as long again when
// they have been answered. A repeat goes first.
func (f *Failures) Patient(now, window, patience, silent time.Duration) rpc.Timing {
	if rest := patience - silent; rest > 0 {
		patience = rest
	}
	t := rpc.Patient(now, window, patience)
	t.First = f.Count > 0
	return t
}

// Waiting is the timing of the next call for those who wait, the first of whom is head: a hasty one for a try.
func (f *Failures) Waiting(p *Policy, now, window time.Duration, head *Request) rpc.Timing {
	if head != nil && head.Try {
		return rpc.Hasty(now, window)
	}
	silent := f.Silent(now)
	if head != nil {
		silent = min(silent, now-head.Came)
	}
	return f.Patient(now, window, p.Patience, silent)
}

// Acquiring is the timing of an attempt to acquire. Replicas have more time to acknowledge it.
func (f *Failures) Acquiring(p *Policy, now, lease time.Duration, head *Request) rpc.Timing {
	t := f.Waiting(p, now, rpc.Window(lease), head)
	if p.AckReplicas > 0 {
		t.Grace = p.AckTimeout
	}
	return t
}

// LateMax is how often in a row an attempt that came too late is repeated at once.
const LateMax = 3
