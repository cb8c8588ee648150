package sim

import (
	"slices"
	"time"
)

// trouble is a time in which nothing can be expected of a process, or of all of them: a fault, and what it takes to get over it.
type trouble struct {
	p     *process // nil: all
	until time.Time
}

const (
	// calm is how long after a fault everybody goes on as before, at most: the longest back-off, with its jitter, and some trips.
	calm = 1300 * time.Millisecond
	// soon is the same for a fault that costs an attempt or two.
	soon = 100 * time.Millisecond
)

// troubles notes that a fault lasts until then; nil: of all processes.
func (w *world) troubles(p *process, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = append(w.trouble, trouble{p, until})
}

// losses are those of answers, one so soon after the other that back-offs add up.
type losses struct {
	row  int
	over time.Time // when the process has got over the last one
}

// loses notes that a process loses an answer now.
func (p *process) loses() {
	now := time.Now()
	var over time.Time
	p.set(func() {
		if now.After(p.losses.over) {
			p.losses.row = 0
		}
		p.losses.row++
		backoff := min(10*time.Millisecond<<min(p.losses.row, 7), time.Second)
		over = now.Add(max(soon, backoff+20*time.Millisecond))
		p.losses.over = over
	})
	p.world.troubles(p, over)
}

// untroubled reports whether all has been well with a process since an instant; nil: with all of them.
func (w *world) untroubled(p *process, since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.trouble, func(t trouble) bool {
		return (t.p == nil || p == nil || t.p == p) && t.until.After(since)
	})
}

// calmSince is the instant, or a later one if something was wrong until then.
func (w *world) calmSince(instant time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.trouble {
		if t.until.After(instant) {
			instant = t.until
		}
	}
	return instant
}

// reconnected is when a process has its connections again that cannot make any for so long. After twenty failures in a row go-redis makes
// no more, and looks only once a second whether it can.
func reconnected(away time.Duration) time.Time {
	pause := min(time.Second, away+25*time.Millisecond)
	if away > 200*time.Millisecond {
		pause += time.Second
	}
	return time.Now().Add(away + pause + 40*time.Millisecond)
}
