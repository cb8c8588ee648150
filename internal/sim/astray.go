package sim

import (
	"bytes"
	"time"
)

// astray are messages that a process is about to send and lose track of: soon after each its connection breaks, so that whoever sent it
// tries again or gives up, and yet it arrives, late. Of an acquire that is a copy which overtakes, or is overtaken by, all that is done
// about it meanwhile.
type astray struct {
	left   int           // so many more
	late   time.Duration // by up to so much
	newest time.Time     // when the last one was sent
}

// next is by how much the message at hand may be late; 0: it does not go astray. Two that are sent at one instant share their fate,
// because nobody knows which of them is the first.
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

// strays makes a message that arrives then arrive later, if it goes astray, and breaks its connection.
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
