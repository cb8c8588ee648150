package actors

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
)

// Guard notices that a lease was dropped without a release. Only the user's Lease refers to the guard, so the garbage collector finds both
// unreachable at the same time.
//
// A guard keeps its cleanup and serves one lease after another. A new cleanup for each lease would cost too much: attaching a cleanup and removing it
// again takes longer than passing a lock from one goroutine to the next.
type Guard struct{ watch *watch }

// watch is the argument of a guard's cleanup. It must not refer to the guard, or the guard would stay reachable for ever.
type watch struct {
	hold   atomic.Pointer[lease.Hold] // the lease that is guarded now; nil while the guard is in the pool. Always nil if `whole` is set
	whole  Leak                       // the lease, if the guard is for a lease of several locks; such a guard never goes to the pool
	engine *Engine
}

// Leak is a lease that was dropped without a release.
type Leak interface {
	// Engine returns the engine that releases the lease, or nil if the lease has ended.
	Engine() *Engine
	// Notice reports the leak and releases the lease. A fixed lease (one that is not renewed) is reported, but not released. As long as the user has a
	// channel or a context that reports the lease's end, Notice does nothing and returns false.
	Notice(e *Engine) (done bool)
}

// Guard makes a guard for a lease of this engine.
func (e *Engine) Guard(h *lease.Hold) *Guard {
	g, _ := e.guards.Get().(*Guard)
	if g == nil {
		g = newGuard(&watch{engine: e})
	}
	g.watch.hold.Store(h)
	return g
}

// GuardWhole makes a guard for a lease of several locks.
func GuardWhole(whole Leak) *Guard { return newGuard(&watch{whole: whole}) }

func newGuard(w *watch) *Guard {
	g := &Guard{w}
	runtime.AddCleanup(g, (*watch).unguarded, w)
	return g
}

// Free is called when the guarded lease is being released. It returns the guard to the pool, unless the guard is for a lease of several locks.
func (g *Guard) Free() {
	if w := g.watch; w.whole == nil {
		w.hold.Store(nil)
		w.engine.guards.Put(g)
	}
}

// unguarded is the cleanup. It runs on a goroutine of the Go runtime, outside of any testing/synctest bubble, so it must not touch the
// engine's channels and timers. It only adds the lease to the engine's leaks; noticeLeaks does the rest.
func (w *watch) unguarded() {
	leak := w.whole
	if h := w.hold.Load(); h != nil {
		leak = leakedHold{h, w.engine}
	}
	if leak == nil {
		return
	}
	if e := leak.Engine(); e != nil {
		e.leaks.add(leak)
	}
}

// leaks holds the dropped leases that have not been reported yet. As long as the watchdog watches any lease, it calls noticeLeaks about once a
// second.
type leaks struct {
	mu  sync.Mutex
	all []Leak
}

func (l *leaks) add(leak Leak) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, leak)
}

func (l *leaks) take() []Leak {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// noticeLeaks reports leaks. A leak that cannot be reported yet is tried again next time.
func (e *Engine) noticeLeaks() {
	for _, leak := range e.leaks.take() {
		if !leak.Notice(e) {
			e.leaks.add(leak)
		}
	}
}

// leakedHold is a lease of one lock.
type leakedHold struct {
	*lease.Hold
	engine *Engine
}

// Engine is the engine of the lock.
func (l leakedHold) Engine() *Engine {
	if l.Err() != nil {
		return nil
	}
	return l.engine
}

// Notice reports the leak and starts a release. A fixed lease is reported, but not released: a fixed lease expires by itself, and the user may have
// dropped the Lease on purpose.
func (l leakedHold) Notice(e *Engine) (done bool) {
	if l.Err() == nil && l.Awaited() {
		return false
	}
	if l.Fixed() {
		if l.Until() != 0 {
			e.Leaked(l.Address().Name, l.Address().Kind.Name, l.Grant.ID, e.Time(l.Since))
		}
		return true
	}
	r, _ := e.claim(l.Hold)
	if r != nil {
		e.Leaked(l.Address().Name, l.Address().Kind.Name, l.Grant.ID, e.Time(l.Since))
		e.releaseAsync(r)
	}
	return true
}

// Leaked emits the event for a dropped lease.
func (e *Engine) Leaked(name string, kind protocol.Kind, id string, since time.Time) {
	e.events.Emit(protocol.LeaseLeaked{Name: name, Kind: kind, ID: id, Since: since})
}
