package rpc

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// Timing says how long a call may wait to be sent, and then for its answer.
//
// The two times are separate because their ends mean different things. A call that was not sent has done nothing: it may wait as long as its
// caller does, and nothing has to be repeated. A call that was sent may be executed at any time until its window has passed.
type Timing struct {
	Asked    time.Duration // when the sender asked for it
	window   time.Duration // counts from the sending; when it is over, Redis must not execute the call any more
	Grace    time.Duration // additional time for the answer: replicas may have to acknowledge what the call wrote, or the execution has an early limit
	Until    time.Duration // Redis must not execute the call after this instant, whenever it is sent; clock.Never: no such instant
	Patience time.Duration // the call is refused if it has not been sent and Redis has been silent for this long
	First    bool          // the call goes before other calls: it is a repeat, or gives something back
}

// Patient returns the timing of a call that may wait in line until Redis has been silent for patience.
func Patient(now, window, patience time.Duration) Timing {
	return Timing{Asked: now, window: window, Until: clock.Never, Patience: patience}
}

// Hasty returns the timing of a call that must be answered within a window from now.
func Hasty(now, window time.Duration) Timing {
	return Timing{Asked: now, window: window, Until: now + window, Patience: window}
}

// SentAt returns two limits for a call that is sent at this instant: the last instant at which it may be executed, and the end of the wait for
// its answer.
func (t *Timing) SentAt(now time.Duration) (notAfter, deadline time.Duration) {
	notAfter = min(t.Until, now+t.window)
	return notAfter, notAfter + t.Grace
}

// Expires returns the instant at which a call is refused if it has not been sent. heard is the instant at which Redis last answered.
func (t *Timing) Expires(heard time.Duration) time.Duration {
	return min(t.Until, max(t.Asked, heard)+t.Patience)
}

// Window returns how long one attempt for a lease of the given length may take before its outcome counts as unknown.
func Window(lease time.Duration) time.Duration { return min(lease/3, 2*time.Second) }
