package sim

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// processClock is the time of a process: it goes on while the process is paused, but no timer fires. No two timers fire at once.
type processClock struct {
	p     *process
	start time.Time
}

// Now is the time since the process began.
func (c *processClock) Now() time.Duration {
	passed := time.Since(c.start)
	if change := c.p.world.mutant.clock; change != nil {
		return change(passed)
	}
	return passed
}

// AfterFunc calls f when so much time has passed and the process is not paused.
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

// now are its dice at this instant.
func (t *processTimer) now() dice { return t.dice.of(uint64(time.Now().UnixNano())) }

// late makes an instant of its own of when it fires.
func (t *processTimer) late(d time.Duration) time.Duration {
	at := time.Now().Add(max(d, 0) + t.now().below(time.Microsecond))
	return time.Until(t.p.world.unique(at))
}

// Stop is that of time.Timer.
func (t *processTimer) Stop() bool { return t.t.Stop() }

// Reset is that of time.Timer.
func (t *processTimer) Reset(d time.Duration) bool { return t.t.Reset(t.late(d)) }

// bound is a context of a user that ends by the clock of its process.
type bound struct {
	context.Context
	end time.Time
	due atomic.Bool
}

// Deadline is when it ends.
func (b *bound) Deadline() (time.Time, bool) { return b.end, true }

// Err says that the deadline has passed, or what ended the context it was made of.
func (b *bound) Err() error {
	if err := b.Context.Err(); err == nil || !b.due.Load() {
		return err
	}
	return context.DeadlineExceeded
}

// within is a context that ends after a while.
func (p *process) within(d time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancel(p.ctx)
	b := &bound{Context: inner, end: time.Now().Add(d)}
	timer := p.clock.AfterFunc(d, func() {
		b.due.Store(true)
		cancel()
	})
	return b, func() { timer.Stop(); cancel() }
}

// cancelled is one that is cancelled after a while.
func (p *process) cancelled(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(p.ctx)
	timer := p.clock.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}
