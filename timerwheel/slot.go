package timerwheel

import (
	"slices"
	"time"
)

// What the wheel keeps of emptied slices. In the steady state a slot is begun for
// each one that is handed over, so a few are enough, and this few bounds what an
// idle wheel holds on to: 8 * 512 KiB.
const (
	maxSpares   = 8
	maxSpareCap = 1 << 16
)

// slot holds the timers of one slot of the ring. A non-empty slot is always
// awaited. The reverse does not hold: what was promised to the driver cannot be
// taken back, so a slot emptied by Cancel is woken for once, in vain.
type slot[T any] struct {
	timers  []*Timer[T]
	awaited bool // the driver has been, or is just being, told to wake for it
}

// All methods below need w.mu.

// tickOf is the number of the slot that an instant lies in. (Needs no lock.)
func (w *Wheel[T]) tickOf(at time.Duration) int64 {
	return int64(max(at, 0) / w.width)
}

// see notes how far the clock is. Readings arrive out of order: one may be older
// than that of a goroutine that got the mutex first.
func (w *Wheel[T]) see(now time.Duration) {
	w.tick = max(w.tick, w.tickOf(now))
}

// reach is the slot in which a timer for slot tick has to sit: within one turn
// from w.tick on.
//
// The clock is read only for what seems out of reach, because reading it costs
// more than the rest of Add. With a w.tick that lags behind, the window just lies
// further back: a slot in it that has begun by now is woken for at once, and no
// slot in it is taken for that of another turn.
func (w *Wheel[T]) reach(tick int64) int64 {
	if tick-w.tick > w.mask {
		w.see(w.now())
	}
	return min(max(tick, w.tick), w.tick+w.mask)
}

// put seats t, whose deadline is in slot tick, in slot seat. The caller also has
// to await that.
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

// await reports whether the driver has still to be told about slot seat. The
// caller tells it after unlocking, for telling can wait for the driver's goroutine.
//
// A slot is told about once per turn. That is enough, because w.tick never goes
// back: if the slot is awaited for slot a >= w.tick of that time, then seat, which is
// within one turn from the present w.tick and has the same index, is a or later.
// If later, because the driver is slow with a, drain finds the timer early and
// seats it again.
func (w *Wheel[T]) await(seat int64) bool {
	s := &w.slots[seat&w.mask]
	if s.awaited {
		return false
	}
	s.awaited = true
	return true
}

// remove takes t out of its slot; the last timer there gets its place.
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

// drain empties slot tick, which has begun, and returns its timers. Those whose
// deadline is in a later slot, because they were out of reach or joined a slot
// that was woken for late, are seated again; w.moved then says what else to wake for.
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

// keep stores the memory of a cleared slice for takeSpare, or lets it go.
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
