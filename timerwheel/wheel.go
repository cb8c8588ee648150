package timerwheel

import (
	"sync"
	"time"
)

// Timer is one entry of a wheel. Embed it by value in what it belongs to; the
// zero value is ready to use and not armed. It must not be copied while it is
// armed, and can be armed in one wheel at a time. Value is the owner's: the wheel
// neither reads nor writes it.
//
// Like Netty's Timeout it is armed at most once: arming it again moves it.
type Timer[T any] struct {
	_ noCopy

	// Value leads back from a handed-over timer to what it belongs to.
	Value T

	// Guarded by the wheel's mutex. Three words would be simpler; two keep a
	// million timers 8 MB smaller.
	tick  int64 // slot of the deadline, counted from instant 0 of the clock
	slot  int32 // index of the slot that it sits in
	place int32 // 1 + index within that slot; 0 = not armed
}

// noCopy makes go vet report copies of what contains it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Wheel is a hashed timer wheel after Netty's HashedWheelTimer (Varghese and
// Lauck 1987); the package comment says where it differs. Make one with New and
// end it with Stop. All methods may be called from any goroutine, also several
// at once about the same timer, and all but Stop also from within due.
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
	spare [][]*Timer[T] // emptied slices, for slots to come
	tick  int64         // newest slot known to have begun; never goes back
	armed int           // timers in all slots

	// touched only in wake, which the driver never calls twice at once
	moved []int64 // slots to wake for, because drain seated timers there
}

// New makes a wheel and starts its driver. It fails if an option is out of range
// or due is nil.
//
// The wheel calls due with the timers of one slot, never with none and never
// twice at once. They are no longer armed: Cancel reports false for them, Add arms
// them anew. due must only pass the batch on and return, for the wheel hands out
// nothing else meanwhile. The batch belongs to the consumer from then on, for as
// long as it likes; giving it back with Recycle is optional and saves an
// allocation per slot.
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

// Now is the present instant on the wheel's clock, the one that Add takes.
func (w *Wheel[T]) Now() time.Duration { return w.now() }

// Add arms t at the instant at of the wheel's clock, or moves it there if it is
// armed. It is handed over at the begin of the slot that at lies in, that is up to
// one Width early; if that has begun already, at once. After Stop nothing is
// armed and Add reports false.
func (w *Wheel[T]) Add(t *Timer[T], at time.Duration) bool {
	tick := w.tickOf(at)
	w.mu.Lock()
	if w.slots == nil {
		w.mu.Unlock()
		return false
	}
	seat := w.reach(tick)
	w.put(t, tick, seat)
	first := w.await(seat)
	w.mu.Unlock()
	if first {
		w.driver.after(seat)
	}
	return true
}

// AddAll arms or moves every timer of ts to the same instant, as Add does, but
// with the mutex taken once. It copies what it needs: ts stays the caller's. It is
// the way to re-arm a batch after a renewal. After Stop it arms none of them and
// reports false.
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
			w.put(t, tick, seat)
		}
		first = w.await(seat)
	}
	w.mu.Unlock()
	if first {
		w.driver.after(seat)
	}
	return true
}

// Cancel disarms t. It reports true if t was armed, and then due will not see it;
// false if t was not armed, was handed over already (due may still be about to
// see it), or the wheel has been stopped.
func (w *Wheel[T]) Cancel(t *Timer[T]) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.place == 0 {
		return false
	}
	w.remove(t)
	return true
}

// Len is the number of timers armed.
func (w *Wheel[T]) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.armed
}

// Recycle gives the memory of a batch back to the wheel once the consumer is done
// with it. The slice must not be used after that. The wheel keeps a few and
// leaves the others to the garbage collector, and forgets which timers it held.
func (w *Wheel[T]) Recycle(batch []*Timer[T]) {
	batch = batch[:cap(batch)]
	clear(batch)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(batch)
}

// Stop ends the wheel for good and returns the timers still armed, in no order.
// What due was given is not among them, so each timer is either there, here or
// cancelled. Stop waits for a running call of due to return; none follows. It
// must therefore not be called from within due. Every later call waits too, and
// returns nil.
func (w *Wheel[T]) Stop() []*Timer[T] {
	w.mu.Lock()
	rest := w.takeAll()
	w.mu.Unlock()
	w.driver.close()
	return rest
}

// wake is called by the driver when slot tick has begun, and hands its timers over.
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
