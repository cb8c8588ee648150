package lock

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/scripts"
)

// TestStep_RandomModelOfPermits plays the random model with a few permits. As long as Redis answers and no message is lost, no permit stays
// free for long while requests wait.
func TestStep_RandomModelOfPermits(t *testing.T) {
	playSeeds(t, func(seed uint64) *world {
		kind := *scripts.Permit
		kind.ID = func(plain string) string { return plain } // the id begins with the name of its process
		k := &permitKey{held: map[string]time.Duration{}}
		w := newWorld(seed, k, &kind)
		if w.lossless = w.Chance(50); w.lossless {
			w.Faults, w.Panics = 0, 0
			w.After(w.UpTo(20*time.Millisecond), w.peer)
		}
		k.all = 1 + w.Random.IntN(3)
		w.watch = func() { w.checkIdle(k.free() > 0) }
		return w
	})
}

// permitKey models the keys of a permit semaphore: the number of permits, and the permits that are held.
type permitKey struct {
	all  int
	held map[string]time.Duration // by id: until when a permit is held
}

func (k *permitKey) String() string { return fmt.Sprintf("%v of %d", k.held, k.all) }

// permitGrace is the time for which a permit stays in Redis after its lease has ended.
const permitGrace = 100 * time.Millisecond

func (k *permitKey) has(w *world, id string) bool { return w.Now < k.held[id] }

func (k *permitKey) fields(w *world) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(k.held)), func(id string) bool { return strings.HasPrefix(id, "peer") || k.held[id]-permitGrace <= w.Now })
}

func (k *permitKey) free() int { return k.all - len(k.held) }

// reap removes expired permits, as every acquire does.
func (k *permitKey) reap(w *world) {
	n := len(k.held)
	maps.DeleteFunc(k.held, func(_ string, until time.Duration) bool { return until <= w.Now })
	if len(k.held) < n && k.free() > 0 {
		w.publish()
	}
}

func (k *permitKey) forceRelease(*world, *scripts.Kind) []string { return nil }

func (k *permitKey) execute(w *world, c *lockCall, done *callDone) {
	_, there := k.held[c.terms.Grant]
	till := w.Now + c.terms.Lease + permitGrace
	switch c.do {
	case callAcquire:
		if !there {
			k.reap(w)
		}
		if there || k.free() > 0 {
			k.held[c.terms.Grant] = max(k.held[c.terms.Grant], till)
			done.acquired = scripts.Acquired{Granted: true, Left: int64(k.free())}
			return
		}
		done.acquired.TTL = -time.Millisecond
		if len(k.held) > 0 {
			done.acquired.TTL = slices.Min(slices.Collect(maps.Values(k.held))) - w.Now
		}
	case callPass:
		switch {
		case there:
			k.held[c.terms.Grant] = max(k.held[c.terms.Grant], till)
		case !k.has(w, c.terms.From):
			return
		case k.free() < 0:
			*done = callDone{class: scripts.Rejected, err: fmt.Errorf("REDUCED")}
			return
		default:
			delete(k.held, c.terms.From)
			k.held[c.terms.Grant] = till
		}
		done.held = true
	case callExtend:
		if done.held = k.has(w, c.terms.Grant); done.held {
			k.held[c.terms.Grant] = till
		}
	case callRelease, callOrphan:
		if there {
			done.held = k.has(w, c.terms.Grant)
			delete(k.held, c.terms.Grant)
			if k.free() >= 0 {
				done.receivers = w.publish()
			}
		}
	}
}

func (k *permitKey) peer(w *world) {
	k.reap(w)
	if w.Chance(10) {
		k.all = 1 + w.Random.IntN(4)
		w.publish()
		return
	}
	if k.free() <= 0 {
		return
	}
	id := fmt.Sprint("peer", w.Now)
	k.held[id] = w.Now + w.UpTo(machinetest.Lease)
	if w.Chance(70) {
		w.After(w.UpTo(20*time.Millisecond), func() {
			if _, there := k.held[id]; there {
				delete(k.held, id)
				if k.free() >= 0 {
					w.publish()
				}
			}
		})
	}
}

func (k *permitKey) remove(w *world) {
	for id := range k.held {
		w.removed[id] = true
	}
	clear(k.held)
	w.publish()
}

// checkIdle checks that no lock or permit stays free for longer than idleMax while requests wait.
func (w *world) checkIdle(free bool) {
	waits := false
	for _, p := range w.procs {
		for r := range p.checker.open {
			waits = waits || r.Do == wait.Acquire && p.PausedTo < w.Now
		}
	}
	if !w.lossless || w.Excused || !waits || !free {
		w.since = 0
		return
	}
	if w.since == 0 {
		w.since = w.Now
	}
	if w.Now-w.since > idleMax {
		w.Failf("%v was free for %v while requests waited", w.key, w.Now-w.since)
	}
}

// idleMax is the longest time for which a lock or a permit may be free while requests wait. It is long enough for a broken connection.
const idleMax = 100 * time.Millisecond
