package actors

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
)

// Guard notices that nobody has a lease any more, although it was never released. The user's Lease is the only thing that refers to
// it, so the garbage collector finds both unreachable together.
//
// Attaching a cleanup and taking it back would cost more than a hand-off inside the process. So a guard keeps its cleanup for life,
// and serves one lease after another.
type Guard struct{ watch *watch }

// watch is what a guard's cleanup is told. The guard cannot be reached from here.
type watch struct {
	hold   atomic.Pointer[lease.Hold] // that is guarded now
	whole  Leak                       // or what is, for the guard's life
	engine *Engine
}

// Leak is a lease that nobody has any more.
type Leak interface {
	// Home is the engine that is to see to it; nil: the lease has ended.
	Home() *Engine
	// Notice reports it and releases it. It returns false while somebody may still learn of the lease's end.
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

// GuardWhole makes a guard for a lease that has others.
func GuardWhole(whole Leak) *Guard { return newGuard(&watch{whole: whole}) }

func newGuard(w *watch) *Guard {
	g := &Guard{w}
	runtime.AddCleanup(g, (*watch).unguarded, w)
	return g
}

// Free takes a guard back, when its lease is being released.
func (g *Guard) Free() {
	if w := g.watch; w.whole == nil {
		w.hold.Store(nil)
		w.engine.guards.Put(g)
	}
}

// unguarded is the cleanup. It runs on a goroutine of the runtime of Go, outside of any testing/synctest bubble, where the engine's
// channels and timers must not be touched. So it only adds to the engine's leaks, which the watchdog has looked at.
func (w *watch) unguarded() {
	leak := w.whole
	if h := w.hold.Load(); h != nil {
		leak = leakedHold{h, w.engine}
	}
	if leak == nil {
		return
	}
	if e := leak.Home(); e != nil {
		e.leaks.add(leak)
	}
}

// leaks are the leases that were dropped and not reported yet. The watchdog calls noticeLeaks once a second while anything is held.
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

// noticeLeaks reports leaks. Those whose end somebody may still learn of are looked at again next time.
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

// Home is the engine of the lock.
func (l leakedHold) Home() *Engine {
	if l.Err() != nil {
		return nil
	}
	return l.engine
}

// Notice reports the leak. A fixed lease ends by itself, and may have been meant to: it is not released.
func (l leakedHold) Notice(e *Engine) (done bool) {
	if l.Err() == nil && l.Awaited() {
		return false
	}
	if l.Fixed() {
		if l.Until() != 0 {
			e.Leaked(l.Address().Name, l.Address().Kind.Name, l.ID(), e.Time(l.Since))
		}
		return true
	}
	r, _ := e.claim(l.Hold)
	if r != nil {
		e.Leaked(l.Address().Name, l.Address().Kind.Name, l.ID(), e.Time(l.Since))
		e.releaseAsync(r)
	}
	return true
}

// Leaked reports a lease that nobody has any more.
func (e *Engine) Leaked(name string, kind protocol.Kind, id string, since time.Time) {
	e.events.Emit(protocol.LeaseLeaked{Name: name, Kind: kind, ID: id, Since: since})
}
