package actors

import "time"

// timing says how long a call may wait to be sent, and how long for its answer once it is.
//
// The two are apart because they fail differently. A call that waits has done nothing; it can wait for as long as its caller does, and
// nothing has to be repeated. A call that was sent may be executed at any time until its window has passed.
type timing struct {
	asked    time.Duration // when it was asked for
	window   time.Duration // from when it is sent: after that it must not be executed any more, and its outcome is unknown
	grace    time.Duration // added to the window before the outcome is unknown, for replicas to acknowledge it
	until    time.Duration // the instant after which it must not be executed whenever it is sent; never: there is none
	patience time.Duration // it is refused when it is not sent, and Redis has been silent for this long
	first    bool          // it goes before other calls: it is a repeat, or gives something back
}

// patient is the timing of a call that waits until Redis answers again, if that is not too long.
func patient(now, window, patience time.Duration) timing {
	return timing{asked: now, window: window, until: never, patience: patience}
}

// hasty is the timing of a call that must have been answered within a window from now on.
func hasty(now, window time.Duration) timing {
	return timing{asked: now, window: window, until: now + window, patience: window}
}

// sentAt is until when it may be executed if it is sent at this instant, and until when its answer is awaited.
func (t *timing) sentAt(now time.Duration) (notAfter, deadline time.Duration) {
	notAfter = min(t.until, now+t.window)
	return notAfter, notAfter + t.grace
}

// expires is when it is refused if it is not sent before. Redis was heard last at this instant.
func (t *timing) expires(heard time.Duration) time.Duration {
	return min(t.until, max(t.asked, heard)+t.patience)
}
