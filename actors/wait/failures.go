package wait

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/scripts"
)

// Failures counts calls in a row without a definite answer: Redis has not answered, or has refused the call for now.
type Failures struct {
	Count int
	first time.Duration // the beginning of the silence; Add makes it later by the time that a call waited in line while Redis answered other calls
	Last  error
}

// Add counts a failed call. If the call waited in line while Redis answered other calls, that time does not count as silence.
func (f *Failures) Add(now time.Duration, c *rpc.Call, err error) {
	switch {
	case f.Count > 0:
		f.first += max(c.Since-c.Asked, 0)
	case c.NotAfter == 0: // the call was not sent
		f.first = c.Since
	default:
		f.first = now
	}
	f.Count++
	f.Last = scripts.Explain(err)
}

// Silent returns the time for which Redis has not answered since the instant `since`.
func (f *Failures) Silent(now, since time.Duration) time.Duration {
	if f.Count == 0 {
		return 0
	}
	return now - max(f.first, since)
}

// Patient returns the timing of the next call of a caller that has waited since the instant `since`. The call may wait in line for the rest of the
// caller's patience, which is patience minus the silence. If no patience is left, the caller has been answered already, and the call may wait for the
// full patience. A repeat of a failed call goes before other calls: Redis may have executed the failed call, and keep something that no caller uses.
func (f *Failures) Patient(now, window, patience, since time.Duration) rpc.Timing {
	if rest := patience - f.Silent(now, since); rest > 0 {
		patience = rest
	}
	t := rpc.Patient(now, window, patience)
	t.First = f.Count > 0
	return t
}

// Waiting returns the timing of the next call for waiters. The parameter `head` is the first waiter. If head is a try, the call must be answered
// within the window.
func (f *Failures) Waiting(p *Policy, now, window time.Duration, head *Request) rpc.Timing {
	switch {
	case head == nil:
		return f.Patient(now, window, p.Patience, 0)
	case head.Try:
		return rpc.Hasty(now, window)
	}
	return f.Patient(now, window, p.Patience, head.Came)
}

// LateMax is how many times in a row an attempt that reached the server too late is repeated without a pause.
const LateMax = 3
