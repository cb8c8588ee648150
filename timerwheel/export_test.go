package timerwheel

import (
	"fmt"
	"time"
)

// MaxSpares and MaxSpareCap limit the recycled memory that a wheel keeps.
const (
	MaxSpares   = maxSpares
	MaxSpareCap = maxSpareCap
)

// ByHand is a driver for tests: it records the wake-ups that the wheel requests, and Wake makes them.
type ByHand struct {
	Awaited []int64 // slots, in the order in which wake-ups were requested
	wake    func(tick int64, now time.Duration)
}

func (d *ByHand) after(tick int64) { d.Awaited = append(d.Awaited, tick) }
func (d *ByHand) close()           {}

// Wake wakes the wheel for the slot that was requested first.
func (d *ByHand) Wake(now time.Duration) {
	tick := d.Awaited[0]
	d.Awaited = d.Awaited[:copy(d.Awaited, d.Awaited[1:])]
	d.wake(tick, now)
}

// NewByHand is New with a driver that has no goroutines.
func NewByHand[T any](o Options, due func([]*Timer[T])) (*Wheel[T], *ByHand, error) {
	w, err := newWheel(o, due)
	if err != nil {
		return nil, nil, err
	}
	d := &ByHand{wake: w.wake}
	w.driver = d
	return w, d, nil
}

// Slots is the number of slots.
func (w *Wheel[T]) Slots() int { return int(w.mask) + 1 }

// Spares is the number of slices kept for reuse.
func (w *Wheel[T]) Spares() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.spare)
}

// Check reports the first inconsistency in the wheel.
func (w *Wheel[T]) Check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	armed := 0
	for i := range w.slots {
		s := &w.slots[i]
		armed += len(s.timers)
		if len(s.timers) > 0 && !s.awaited {
			return fmt.Errorf("slot %d: %d timers, but no wake-up was requested", i, len(s.timers))
		}
		for j, t := range s.timers {
			if int(t.slot) != i || int(t.place) != j+1 {
				return fmt.Errorf("slot %d, place %d: the timer says slot %d, place %d", i, j, t.slot, t.place-1)
			}
		}
		for j, t := range s.timers[len(s.timers):cap(s.timers)] {
			if t != nil {
				return fmt.Errorf("slot %d keeps a timer alive %d places after its end", i, j)
			}
		}
	}
	if armed != w.armed {
		return fmt.Errorf("%d timers in slots, %d counted", armed, w.armed)
	}
	return nil
}
