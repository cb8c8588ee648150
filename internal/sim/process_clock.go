package sim

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// processClock is the time of a process. It continues while the process is paused, but no timer fires. No two timers fire at once.
type processClock struct {
	p     *process
	start time.Time
}

// Now returns the time since the process began.
func (c *processClock) Now() time.Duration {
	passed := time.Since(c.start)
	if change := c.p.world.mutant.clock; change != nil {
		return change(passed)
	}
	return passed
}

// AfterFunc calls f after d. If the process is paused then, AfterFunc calls f when the pause ends.
func (c *processClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := &processTimer{p: c.p, dice: c.p.draw('a', uint64(d))}
	t.t = time.AfterFunc(t.late(d), func() {
		c.p.awake(t.now())
		f()
	})
	return t
}

type processTimer struct {
	p    *process
	dice dice
	t    *time.Timer
}

// now returns dice for a draw by the timer at this instant.
func (t *processTimer) now() dice { return t.dice.of(uint64(time.Now().UnixNano())) }

// late adds a small delay that makes the timer fire at an instant of its own.
func (t *processTimer) late(d time.Duration) time.Duration {
	at := time.Now().Add(max(d, 0) + t.now().below(time.Microsecond))
	return time.Until(t.p.world.unique(at))
}

// Stop behaves as time.Timer.Stop.
func (t *processTimer) Stop() bool { return t.t.Stop() }

// Reset behaves as time.Timer.Reset.
func (t *processTimer) Reset(d time.Duration) bool { return t.t.Reset(t.late(d)) }

// bound is a user's context with a deadline on the clock of its process.
type bound struct {
	context.Context
	end time.Time
	due atomic.Bool
}

// Deadline returns the end of the context.
func (b *bound) Deadline() (time.Time, bool) { return b.end, true }

// Err returns DeadlineExceeded after the deadline, and until then the error of the wrapped context.
func (b *bound) Err() error {
	if err := b.Context.Err(); err == nil || !b.due.Load() {
		return err
	}
	return context.DeadlineExceeded
}

// within returns a context with a timeout.
func (p *process) within(d time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancel(p.ctx)
	b := &bound{Context: inner, end: time.Now().Add(d)}
	timer := p.clock.AfterFunc(d, func() {
		b.due.Store(true)
		cancel()
	})
	return b, func() { timer.Stop(); cancel() }
}

// cancelled returns a context that is cancelled after d.
func (p *process) cancelled(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(p.ctx)
	timer := p.clock.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}
