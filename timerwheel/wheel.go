package timerwheel

import (
	"slices"
	"sync"
	"time"
)

// Timer is one entry of a wheel. Embed it by value in the object that it belongs to. The zero
// value is ready to use and not armed. A timer must not be copied while it is armed, and can be
// armed in one wheel at a time. The wheel does not use Value.
//
// Arming an armed timer again moves it.
type Timer[T any] struct {
	_ noCopy

	// Value identifies the object to which a delivered timer belongs.
	Value T

	// Guarded by the wheel's mutex. slot and place have 32 bits each: with 64 bits, a
	// million timers would need 8 MB more.
	tick  int64 // slot of the deadline, counted from instant 0 of the clock
	slot  int32 // index of the slot in which it is stored
	place int32 // 1 + index within that slot; 0 = not armed
}

// noCopy makes go vet report copies of a struct that contains it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Wheel is a hashed timer wheel after Netty's HashedWheelTimer (Varghese and Lauck 1987); the
// package comment lists the differences. Make one with New and end it with Stop. All methods
// are safe for concurrent use, even for the same timer, and all except Stop may be called from
// due, the function given to New.
type Wheel[T any] struct {
	// fixed at construction
	width  time.Duration
	mask   int64 // number of slots - 1
	now    func() time.Duration
	due    func(batch []*Timer[T])
	driver driver

	mu sync.Mutex
	// guarded by mu
	slots []slot[T]     // nil once stopped
	spare [][]*Timer[T] // emptied slices, to be reused
	tick  int64         // newest slot known to have begun; never goes back
	armed int           // timers in all slots

	// used only in wake; the driver never makes two calls of wake at the same time
	moved []int64 // slots that need a wake-up, because drain placed timers in them
}

// Limits for the emptied slices that the wheel keeps. In the steady state, each delivery empties one slot, and one other slot
// gets its first timer, so a few slices are enough. The limits bound the memory that an idle wheel keeps: 8 * 512 KiB.
const (
	maxSpares   = 8
	maxSpareCap = 1 << 16
)

// slot holds the timers of one slot of the ring. For a slot that has timers, a wake-up has been
// requested from the driver, or is just being requested. A slot that Cancel has emptied still
// causes one useless wake-up, because a request cannot be withdrawn.
type slot[T any] struct {
	timers  []*Timer[T]
	awaited bool // a wake-up has been requested from the driver, or is just being requested
}

// New makes a wheel and starts its driver. It fails if an option is out of range or due is nil.
//
// The wheel calls due with a batch: all timers of one slot that are due, at least one. It never
// makes two calls at the same time. The timers of a batch are no longer armed: Cancel reports false
// for them, and Add arms them again. The function due should only pass the batch on to a consumer
// and return, because the wheel delivers nothing else while due runs. The wheel does not use the
// batch any more. The consumer may return it with Recycle, which saves one allocation per slot.
func New[T any](o Options, due func(batch []*Timer[T])) (*Wheel[T], error) {
	w, err := newWheel(o, due)
	if err != nil {
		return nil, err
	}
	w.driver = startDelayQueue(w.width, w.now, w.wake)
	return w, nil
}

func newWheel[T any](o Options, due func(batch []*Timer[T])) (*Wheel[T], error) {
	if due == nil {
		return nil, errNoDue
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	w := &Wheel[T]{
		width: o.Width,
		mask:  int64(o.Slots) - 1,
		now:   o.Now,
		due:   due,
		slots: make([]slot[T], o.Slots),
	}
	w.see(w.now())
	return w, nil
}

// Now returns the present instant on the wheel's clock, as used by Add.
func (w *Wheel[T]) Now() time.Duration { return w.now() }

// Add arms t, or moves it if it is already armed. The parameter at is the deadline, an instant on
// the wheel's clock. The timer is delivered when the slot that contains this instant begins: up to
// one Width early, or at once if the slot has already begun. After Stop, Add arms nothing and
// reports false.
func (w *Wheel[T]) Add(t *Timer[T], at time.Duration) bool {
	tick := w.tickOf(at)
	w.mu.Lock()
	if w.slots == nil {
		w.mu.Unlock()
		return false
	}
	seat := w.reach(tick)
	first := w.put(t, tick, seat)
	w.mu.Unlock()
	if first {
		w.driver.after(seat)
	}
	return true
}

// AddAll arms or moves every timer of ts to the same instant, as Add does, but locks the mutex
// only once. Use it to re-arm a batch after a renewal. It does not keep ts. After Stop it arms
// no timer and reports false.
func (w *Wheel[T]) AddAll(ts []*Timer[T], at time.Duration) bool {
	tick := w.tickOf(at)
	w.mu.Lock()
	if w.slots == nil {
		w.mu.Unlock()
		return false
	}
	seat, first := int64(0), false
	if len(ts) > 0 {
		seat = w.reach(tick)
		w.grow(seat, len(ts))
		for _, t := range ts {
			first = w.put(t, tick, seat) || first
		}
	}
	w.mu.Unlock()
	if first {
		w.driver.after(seat)
	}
	return true
}

// Wake makes the wheel read its clock, and deliver what is due. It is needed only after the clock
// has jumped forward. For example, some clocks count the time for which the machine was suspended.
// The driver sleeps by Go's clock, which does not count that time. So without a call of Wake, the
// wheel would notice the jump only at its next wake-up.
func (w *Wheel[T]) Wake() { w.driver.after(0) }

// Cancel disarms t. It reports true if t was armed; the function due will then not receive t.
// It reports false if t was not armed, if t was already delivered (the function due may be about
// to receive it), or if the wheel has been stopped.
func (w *Wheel[T]) Cancel(t *Timer[T]) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.place == 0 {
		return false
	}
	w.remove(t)
	return true
}

// Len returns the number of armed timers.
func (w *Wheel[T]) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.armed
}

// Recycle returns the memory of a batch to the wheel once the consumer is done with it. The
// slice must not be used afterwards. The wheel clears it, keeps a few such slices, and leaves
// the others to the garbage collector.
func (w *Wheel[T]) Recycle(batch []*Timer[T]) {
	batch = batch[:cap(batch)]
	clear(batch)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(batch)
}

// Stop ends the wheel permanently and returns the timers that are still armed, in no particular
// order. All other timers were delivered or cancelled before. Stop waits until a running call of
// due has returned, so it must not be called from due. Once Stop has returned, the wheel does not
// call due any more. Later calls of Stop wait too, and return nil.
func (w *Wheel[T]) Stop() []*Timer[T] {
	w.mu.Lock()
	rest := w.takeAll()
	w.mu.Unlock()
	w.driver.close()
	return rest
}

// The driver calls wake when the slot with the number tick has begun. wake delivers the timers of
// that slot.
func (w *Wheel[T]) wake(tick int64, now time.Duration) {
	w.mu.Lock()
	if w.slots == nil {
		w.mu.Unlock()
		return
	}
	w.see(now)
	batch := w.drain(tick)
	w.mu.Unlock()
	for _, seat := range w.moved {
		w.driver.after(seat)
	}
	if len(batch) > 0 {
		w.due(batch)
	}
}

// All methods below, except tickOf, are called with w.mu locked.

// tickOf returns the number of the slot that an instant lies in.
func (w *Wheel[T]) tickOf(at time.Duration) int64 {
	return int64(max(at, 0) / w.width)
}

// see records the progress of the clock. Readings may arrive out of order: a goroutine with a
// newer reading may have got the mutex first.
func (w *Wheel[T]) see(now time.Duration) {
	w.tick = max(w.tick, w.tickOf(now))
}

// reach returns the number of the slot in which a timer must be stored, if the timer's deadline is
// in the slot with the number tick. If slot tick is in the turn that begins at w.tick, the result is
// tick itself. If slot tick is before that turn, the result is the first slot of the turn. If slot
// tick is after that turn, the result is the last slot of the turn.
//
// reach reads the clock only if slot tick is after the turn that begins at w.tick, because reading
// the clock costs more than the rest of Add. So w.tick may lag behind the clock, and the turn may
// begin in the past. That does no harm: if a slot has already begun, its wake-up comes at once. And
// no two slots of the turn have the same index of the ring, whenever the turn begins.
func (w *Wheel[T]) reach(tick int64) int64 {
	if tick-w.tick > w.mask {
		w.see(w.now())
	}
	return min(max(tick, w.tick), w.tick+w.mask)
}

// put stores t in the slot with the number seat; t's deadline is in the slot with the number tick.
// It reports whether a wake-up for slot seat must still be requested. The caller requests it after
// unlocking, because the request can block on the driver's goroutine.
//
// One pending request for each index of the ring is enough. Suppose that slot k has the same index
// as slot seat, and that the wake-up for slot k is pending. When that wake-up was requested, slot k
// was in the turn that began at w.tick, and w.tick never goes back. Slot seat is in the turn that
// begins at w.tick now, so seat >= k. If seat = k, the pending wake-up is the right one. If seat >
// k, slot k is before the present turn, so its wake-up is late. When that wake-up comes, drain
// delivers the timer if it is due, and otherwise places it again.
func (w *Wheel[T]) put(t *Timer[T], tick, seat int64) (first bool) {
	t.tick = tick
	index := int32(seat & w.mask)
	if t.place != 0 {
		if t.slot == index {
			return false
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
	first, s.awaited = !s.awaited, true
	return first
}

// remove takes t out of its slot, and moves the last timer of the slot to the place of t.
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

// drain empties the slot with the number tick, which has begun, and returns the timers that are
// due. A timer that is not due yet is stored here for one of two reasons. Either the timer's own
// slot was more than a turn away when the timer was added, or the wake-up for slot tick was late
// and the timer belongs to a later slot with the same index. drain places such a timer again. If
// the timer's new slot needs a wake-up, drain adds that slot to w.moved.
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
		if w.put(t, t.tick, seat) {
			w.moved = append(w.moved, seat)
		}
	}
	clear(timers[n:])
	if n == 0 {
		w.keep(timers)
	}
	return timers[:n]
}

// grow makes room for n more timers in the slot with the number seat.
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
