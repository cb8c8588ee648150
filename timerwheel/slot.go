package timerwheel

import (
	"slices"
	"time"
)

// Limits for the emptied slices that the wheel keeps. In the steady state a slot is started for
// each one that is delivered, so a few slices are enough. The limits bound the memory that an
// idle wheel keeps: 8 * 512 KiB.
const (
	maxSpares   = 8
	maxSpareCap = 1 << 16
)

// slot holds the timers of one slot of the ring. A non-empty slot is always awaited. An empty slot
// may also be awaited: a wake-up requested from the driver cannot be withdrawn, so a slot emptied
// by Cancel causes one useless wake-up.
type slot[T any] struct {
	timers  []*Timer[T]
	awaited bool // a wake-up has been, or is being, requested from the driver
}

// All methods below need w.mu.

// tickOf returns the number of the slot that an instant lies in. (Needs no lock.)
func (w *Wheel[T]) tickOf(at time.Duration) int64 {
	return int64(max(at, 0) / w.width)
}

// see records the progress of the clock. Readings may arrive out of order: a goroutine with a
// newer one may have got the mutex first.
func (w *Wheel[T]) see(now time.Duration) {
	w.tick = max(w.tick, w.tickOf(now))
}

// reach returns the slot in which a timer for slot tick must be stored: within one turn from w.tick
// on.
//
// The clock is read only if the slot seems out of reach, because reading it costs more than the
// rest of Add. If w.tick lags behind, the window is merely older: if a slot in it has begun by
// now, its wake-up comes at once, and no slot in it is mistaken for that of another turn.
func (w *Wheel[T]) reach(tick int64) int64 {
	if tick-w.tick > w.mask {
		w.see(w.now())
	}
	return min(max(tick, w.tick), w.tick+w.mask)
}

// put stores t, whose deadline is in slot tick, in slot seat. The caller must also call await for seat.
func (w *Wheel[T]) put(t *Timer[T], tick, seat int64) {
	t.tick = tick
	index := int32(seat & w.mask)
	if t.place != 0 {
		if t.slot == index {
			return
		}
		w.remove(t)
	}
	s := &w.slots[index]
	if s.timers == nil {
		s.timers = w.takeSpare()
	}
	s.timers = append(s.timers, t)
	t.slot, t.place = index, int32(len(s.timers))
	w.armed++
}

// await reports whether a wake-up for slot seat must still be requested. The caller requests it
// after unlocking, because the request can block on the driver's goroutine.
//
// One request per slot and turn is enough, because w.tick never goes back. Suppose a wake-up
// was requested for slot k, when k >= w.tick. seat has the same index and is within one turn of
// the present w.tick, so seat >= k. If seat > k, because the driver is late with k, drain finds
// the timer early and places it again.
func (w *Wheel[T]) await(seat int64) bool {
	s := &w.slots[seat&w.mask]
	if s.awaited {
		return false
	}
	s.awaited = true
	return true
}

// remove takes t out of its slot; the last timer of the slot gets its place.
func (w *Wheel[T]) remove(t *Timer[T]) {
	s := &w.slots[t.slot]
	last := len(s.timers) - 1
	moved := s.timers[last]
	s.timers[t.place-1] = moved
	moved.place = t.place
	s.timers[last] = nil
	s.timers = s.timers[:last]
	t.place = 0
	w.armed--
}

// drain empties slot tick, which has begun, and returns its timers. Timers with a deadline in a
// later slot are placed again: they were out of reach, or joined a slot whose wake-up was late.
// w.moved then has the slots that need further wake-ups.
func (w *Wheel[T]) drain(tick int64) []*Timer[T] {
	s := &w.slots[tick&w.mask]
	timers := s.timers
	s.timers, s.awaited = nil, false
	w.armed -= len(timers)
	w.moved = w.moved[:0]
	n := 0
	for _, t := range timers {
		t.place = 0
		if t.tick <= w.tick {
			timers[n] = t
			n++
			continue
		}
		seat := min(t.tick, w.tick+w.mask)
		w.put(t, t.tick, seat)
		if w.await(seat) {
			w.moved = append(w.moved, seat)
		}
	}
	clear(timers[n:])
	if n == 0 {
		w.keep(timers)
	}
	return timers[:n]
}

// grow makes room for n more timers in slot seat.
func (w *Wheel[T]) grow(seat int64, n int) {
	s := &w.slots[seat&w.mask]
	if s.timers == nil {
		s.timers = w.takeSpare()
	}
	s.timers = slices.Grow(s.timers, n)
}

func (w *Wheel[T]) takeSpare() []*Timer[T] {
	last := len(w.spare) - 1
	if last < 0 {
		return nil
	}
	timers := w.spare[last]
	w.spare[last] = nil
	w.spare = w.spare[:last]
	return timers
}

// keep stores the memory of a cleared slice for takeSpare, or drops it.
func (w *Wheel[T]) keep(timers []*Timer[T]) {
	if w.slots == nil || cap(timers) == 0 || cap(timers) > maxSpareCap || len(w.spare) == maxSpares {
		return
	}
	w.spare = append(w.spare, timers[:0])
}

// takeAll disarms every timer, returns them and marks the wheel stopped.
func (w *Wheel[T]) takeAll() []*Timer[T] {
	if w.slots == nil {
		return nil
	}
	rest := make([]*Timer[T], 0, w.armed)
	for i := range w.slots {
		rest = append(rest, w.slots[i].timers...)
	}
	for _, t := range rest {
		t.place = 0
	}
	w.slots, w.spare, w.armed = nil, nil, 0
	return rest
}
