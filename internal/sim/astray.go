package sim

import (
	"bytes"
	"time"
)

// astray makes the next messages of a process go astray. Soon after the process has sent such a message, the connection breaks, so the process
// retries or gives up. The message still arrives, but late. If the message is an acquire, the runtime meanwhile sends the acquire again, or
// releases the grant that the server may have made. The late message may arrive before or after these calls.
type astray struct {
	left   int           // how many more messages go astray
	late   time.Duration // the largest delay
	newest time.Time     // when the last astray message was sent
}

// next returns the largest delay of the current message; 0 means that it does not go astray. A message that is sent at the same instant as an
// astray one goes astray, too, because their order is not known.
func (a *astray) next(now time.Time) time.Duration {
	if now.Equal(a.newest) {
		return a.late
	}
	if a.left == 0 {
		return 0
	}
	a.left--
	a.newest = now
	return a.late
}

// strays returns the time at which a message arrives. That is `at`, unless the message goes astray: then it arrives later, and its
// connection breaks.
func (w *wire) strays(message []byte, at time.Time) time.Time {
	d, up := w.drawn()
	if !up || !bytes.Contains(message, []byte("\r\nevalsha\r\n")) {
		return at
	}
	var within time.Duration
	w.p.set(func() { within = w.p.astray.next(time.Now()) })
	if within == 0 {
		return at
	}
	d = d.of('l', w.out.count())
	world := w.p.world
	at = world.unique(at.Add(d.below(within)))
	w.p.loses()
	world.troubles(w.p, at.Add(soon))
	world.at(tripMin+d.of('c').below(tripSpan), w.cut)
	return at
}
