package timerwheel

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

const (
	minWidth     = time.Millisecond // the driver counts in milliseconds
	defaultSlots = 1024
	maxSlots     = 1 << 24 // 512 MiB of empty slots
)

var errNoDue = errors.New("timerwheel: due is nil")

// Options configures a wheel. Width and Slots correspond to tickDuration and ticksPerWheel of
// Netty's HashedWheelTimer.
type Options struct {
	// Width is the time that one slot covers, at least 1 ms. Timers are delivered up to one
	// Width early. Required.
	Width time.Duration

	// Slots is the number of slots. It is rounded up to a power of two, and to 2 at least. Slots *
	// Width is one turn. A timer with a delay of more than one turn is placed again once per turn.
	// Default 1024; at most 1 << 24.
	Slots int

	// Now reads a monotonic clock that runs at the speed of real time and does not start below
	// zero. It is called from several goroutines, and also while the wheel's mutex is held, so
	// it must not call the wheel. Default: the time since New.
	Now func() time.Duration
}

// complete checks the options and fills in defaults.
func (o *Options) complete() error {
	if o.Width < minWidth {
		return fmt.Errorf("timerwheel: Width is %v, must be at least %v", o.Width, minWidth)
	}
	if o.Slots < 0 || o.Slots > maxSlots {
		return fmt.Errorf("timerwheel: Slots is %d, must be 0 (for %d) to %d", o.Slots, defaultSlots, maxSlots)
	}
	if o.Slots == 0 {
		o.Slots = defaultSlots
	}
	// There are at least two slots: in a wheel with a single one, a timer with a later
	// deadline would be placed in the present slot again and again.
	o.Slots = 1 << bits.Len(uint(max(o.Slots, 2)-1))
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Duration { return time.Since(start) }
	}
	return nil
}
