package actors

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/scripts"
)

// failures counts calls without an answer, in a row.
type failures struct {
	count int
	first time.Duration // since when Redis does not answer, if the row had no gaps
	last  error
}

// add counts a call. The time for which it waited in line while Redis answered others was no silence.
func (f *failures) add(now time.Duration, c *rpc.Call, err error) {
	switch {
	case f.count > 0:
		f.first += max(c.Since-c.Asked, 0)
	case c.NotAfter == 0: // it was not sent
		f.first = c.Since
	default:
		f.first = now
	}
	f.count++
	f.last = scripts.Explain(err)
}

// silent is for how long Redis has not answered.
func (f *failures) silent(now time.Duration) time.Duration {
	if f.count == 0 {
		return 0
	}
	return now - f.first
}

// outlast reports whether Redis has not answered for so long while r waited.
func (f *failures) outlast(now time.Duration, r *Request, patience time.Duration) bool {
	return f.count > 0 && now-max(f.first, r.came) >= patience
}

// patient is the timing of the next call. It stands in line for what is left of the patience of its callers, or for as long again when
// they have been answered. A repeat goes first.
func (f *failures) patient(now, window, patience, silent time.Duration) rpc.Timing {
	if rest := patience - silent; rest > 0 {
		patience = rest
	}
	t := rpc.Patient(now, window, patience)
	t.First = f.count > 0
	return t
}

// waiting is the timing of the next call for those who wait, the first of whom is head: a hasty one for a try.
func (f *failures) waiting(p *Policy, now, window time.Duration, head *Request) rpc.Timing {
	if head != nil && head.try {
		return rpc.Hasty(now, window)
	}
	silent := f.silent(now)
	if head != nil {
		silent = min(silent, now-head.came)
	}
	return f.patient(now, window, p.Patience, silent)
}

// acquiring is the timing of an attempt to acquire. Replicas have more time to acknowledge it.
func (f *failures) acquiring(p *Policy, now, lease time.Duration, head *Request) rpc.Timing {
	t := f.waiting(p, now, rpc.Window(lease), head)
	if p.AckReplicas > 0 {
		t.Grace = p.AckTimeout
	}
	return t
}
