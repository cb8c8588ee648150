package rpc

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// Timing says how long a call may wait to be sent, and how long for its answer once it is.
//
// The two are apart because they fail differently. A call that waits has done nothing; it can wait for as long as its caller does, and
// nothing has to be repeated. A call that was sent may be executed at any time until its window has passed.
type Timing struct {
	Asked    time.Duration // when it was asked for
	window   time.Duration // from when it is sent: after that it must not be executed any more, and its outcome is unknown
	Grace    time.Duration // added to the window before the outcome is unknown, for replicas to acknowledge it
	Until    time.Duration // the instant after which it must not be executed whenever it is sent; never: there is none
	Patience time.Duration // it is refused when it is not sent, and Redis has been silent for this long
	First    bool          // it goes before other calls: it is a repeat, or gives something back
}

// Patient is the timing of a call that waits until Redis answers again, if that is not too long.
func Patient(now, window, patience time.Duration) Timing {
	return Timing{Asked: now, window: window, Until: clock.Never, Patience: patience}
}

// Hasty is the timing of a call that must have been answered within a window from now on.
func Hasty(now, window time.Duration) Timing {
	return Timing{Asked: now, window: window, Until: now + window, Patience: window}
}

// SentAt is until when it may be executed if it is sent at this instant, and until when its answer is awaited.
func (t *Timing) SentAt(now time.Duration) (notAfter, deadline time.Duration) {
	notAfter = min(t.Until, now+t.window)
	return notAfter, notAfter + t.Grace
}

// Expires is when it is refused if it is not sent before. Redis was heard last at this instant.
func (t *Timing) Expires(heard time.Duration) time.Duration {
	return min(t.Until, max(t.Asked, heard)+t.Patience)
}

// Window is how long one attempt for this lease may take before its outcome counts as unknown.
func Window(lease time.Duration) time.Duration { return min(lease/3, 2*time.Second) }
