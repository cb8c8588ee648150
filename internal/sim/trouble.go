package sim

import (
	"slices"
	"time"
)

// trouble is a time in which nothing is asserted about a process, or about all processes. It covers a fault and the recovery from it.
type trouble struct {
	p     *process // nil for all
	until time.Time
}

const (
	// calm is how long recovery after a fault takes at most: the longest back-off, with its jitter, and some round trips.
	calm = 1300 * time.Millisecond
	// soon is how long recovery takes at most after a fault that costs an attempt or two.
	soon = 100 * time.Millisecond
)

// troubles records that nothing is asserted about a process until the given time. A nil process means all of them.
func (w *world) troubles(p *process, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = append(w.trouble, trouble{p, until})
}

// losses are lost replies that follow each other so closely that back-offs add up.
type losses struct {
	row  int
	over time.Time // when the process has recovered from the last loss
}

// loses records that a process loses a reply now.
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

// untroubled reports whether a process has been healthy since an instant; for a nil process, whether all have.
func (w *world) untroubled(p *process, since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.trouble, func(t trouble) bool {
		return (t.p == nil || p == nil || t.p == p) && t.until.After(since)
	})
}

// troubleCount returns the number of troubles so far, past ones included.
func (w *world) troubleCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.trouble)
}

// calmSince returns the instant at which the last trouble ends. If all troubles end before the given instant, calmSince returns the given instant.
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

// reconnected returns the time by which a process is connected again, if it cannot make connections for the duration `away` from now. After twenty
// failures in a row, go-redis dials only once a second.
func reconnected(away time.Duration) time.Time {
	pause := min(time.Second, away+25*time.Millisecond)
	if away > 200*time.Millisecond {
		pause += time.Second
	}
	return time.Now().Add(away + pause + 40*time.Millisecond)
}
